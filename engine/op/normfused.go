package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Batch normalisation, fused with adjacent operations. The pass fuse-norms inserts
// these operations; networks do not use them.

// normFused is batch normalisation followed by ReLU, in one sweep.
var normFused = Define(Spec[Eps]{
	Name:    "channel_norm_fused",
	Doc:     "max((x − mean)/√(variance + eps)·gamma + beta, 0) per channel: x [N C …], moments [2 C], gamma [C], beta [C].",
	Source:  "channel_norm and relu; inserted by the pass fuse-norms",
	NoGrad:  "inserted by the pass fuse-norms after gradients were added",
	Shape:   func(in []Shape, a Eps) (Shape, error) { return channelNorm.Shape(in, a) },
	FLOPs:   func(_ []Shape, out Shape, _ Eps) int64 { return 3 * int64(out.Size()) },
	InPlace: inPlace[Eps](0),
	Class:   graph.Normalisation,
	Ref: func(c Call, a Eps) {
		channelNorm.Ref(c, a)
		for i, v := range c.Out {
			c.Out[i] = relu.op.Scalar.F1(v, 0)
		}
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {2, 4}, {4}, {4}}, A: Eps{1e-5}, Make: positiveVariances(1)},
		{Name: "more channels", In: []Shape{{2, 19, 1, 5, 6}, {2, 19}, {19}, {19}}, A: Eps{1e-5}, Make: positiveVariances(1)},
		{Name: "2-D", In: []Shape{{5, 3}, {2, 3}, {3}, {3}}, A: Eps{1e-3}, Make: positiveVariances(1)},
	},
})

// positiveVariances returns a function that makes the variances among random
// operands positive: row 1 of the moments, operand i.
func positiveVariances(i int) func(in [][]float64) {
	return func(in [][]float64) {
		v := in[i][len(in[i])/2:]
		for k := range v {
			v[k] = 0.5 + math.Abs(v[k])
		}
	}
}

// NormFused appends max(norm, 0) for a batch normalisation with the moments
// mom. Only the pass fuse-norms calls it; networks use BatchNorm and ReLU.
func NormFused(b *Builder, x, mom, gamma, beta Value, a Eps) Value {
	return normFused.add(b, a, x, mom, gamma, beta)
}

// NormGrad is the attribute of the fused gradients of batch normalisation. The
// gradient of the result is the channels of dy from Lo. With ReLU, it counts
// only where the normalisation is positive, which is recomputed from x:
// that moves fewer bytes than reading the result of the ReLU. dy may have more
// channels than x only if the batch has one item.
type NormGrad struct {
	Eps  float64
	Lo   int // first channel of dy
	ReLU bool
}

// check checks dy, operand n, and the values per channel that follow it with
// ReLU, so many of them.
func (a NormGrad) check(in []Shape, n, more int) error {
	operands := n + 1
	if a.ReLU {
		operands += more
	}
	if len(in) != operands || len(in[0]) < 2 {
		return shapeError("operands %v do not fit a gradient of batch normalisation with ReLU %v", in, a.ReLU)
	}
	if err := perChannel(in[0], in[n+1:]...); err != nil {
		return err
	}
	x, dy := in[0], in[n]
	if dy.Equal(x) && a.Lo == 0 {
		return nil
	}
	if len(dy) != len(x) || x[0] != 1 || dy[0] != 1 || !dy[2:].Equal(x[2:]) || a.Lo < 0 || a.Lo+x[1] > dy[1] {
		return shapeError("channels of dy %[2]v from %[1]d do not match x %[3]v", a.Lo, dy, x)
	}
	return nil
}

// gatedGrad is the gradient of the normalisation, after slicing dy and gating
// it by ReLU, in the shape of x. gamma and beta are the numbers of operands.
func (a NormGrad) gatedGrad(c Call, n, gamma, beta int) []float64 {
	x := c.InShape[0]
	g := append([]float64(nil), c.In[n][a.Lo*x[2:].Size():][:x.Size()]...)
	if !a.ReLU {
		return g
	}
	y := make([]float64, len(g))
	channelNorm.Ref(Call{In: [][]float64{c.In[0], c.In[1], c.In[gamma], c.In[beta]}, Out: y, OutShape: x}, Eps{a.Eps})
	for i, v := range y {
		if !(v > 0) {
			g[i] = 0
		}
	}
	return g
}

// normGradBytes counts the traffic. Of dy, operand n, only the channels in use
// are read.
func normGradBytes(n int) func(in []Shape, out Shape, a NormGrad) int64 {
	return func(in []Shape, out Shape, _ NormGrad) int64 {
		size := out.Size()
		for i, s := range in {
			if i == n {
				s = in[0]
			}
			size += s.Size()
		}
		return 4 * int64(size)
	}
}

// normGradCases are cases of operations whose operands before dy are given by
// before. more is the number of values per channel after it with ReLU.
func normGradCases(before func(x Shape) []Shape, more int) []Case[NormGrad] {
	var cs []Case[NormGrad]
	add := func(name string, x, dy Shape, a NormGrad) {
		in := append(before(x), dy)
		for range more {
			if a.ReLU {
				in = append(in, Shape{x[1]})
			}
		}
		a.Eps = 1e-5
		cs = append(cs, Case[NormGrad]{Name: name, In: in, A: a, Make: positiveVariances(1)})
	}
	x, one := Shape{3, 19, 2, 5, 6}, Shape{1, 19, 2, 5, 6}
	add("all", x, x, NormGrad{})
	add("behind ReLU", x, x, NormGrad{ReLU: true})
	add("2-D", Shape{5, 3}, Shape{5, 3}, NormGrad{ReLU: true})
	add("first channels", one, Shape{1, 24, 2, 5, 6}, NormGrad{})
	add("first channels, behind ReLU", one, Shape{1, 40, 2, 5, 6}, NormGrad{ReLU: true})
	add("second block, behind ReLU", one, Shape{1, 40, 2, 5, 6}, NormGrad{Lo: 16, ReLU: true})
	add("inside a block, behind ReLU", one, Shape{1, 24, 2, 5, 6}, NormGrad{Lo: 3, ReLU: true})
	return cs
}

// normFusedSums computes the two sums per channel that the gradients need. It
// is the first of two sweeps over the field.
var normFusedSums = Define(Spec[NormGrad]{
	Name:   "channel_norm_fused_sums",
	Doc:    "Σ dy and Σ dy·(x − mean)/√(variance + eps) per channel from x [N C …], moments [2 C] and dy → [2 C]; behind ReLU with gamma and beta [C].",
	Source: "slice, relu_grad and channel_norm_sums; inserted by the pass fuse-norms",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a NormGrad) (Shape, error) {
		if err := a.check(in, 2, 2); err != nil {
			return nil, err
		}
		return momentsShape(in[0])
	},
	Window: func(in []Shape, _ NormGrad) Window { return Window{FullAxes: allBut(in[0], 1)} },
	Class:  graph.Normalisation,
	FLOPs:  func(in []Shape, _ Shape, _ NormGrad) int64 { return 4 * int64(in[0].Size()) },
	Bytes:  normGradBytes(2),
	Ref: func(c Call, a NormGrad) {
		channelNormSums.Ref(Call{In: [][]float64{c.In[0], c.In[1], a.gatedGrad(c, 2, 3, 4)},
			InShape: []Shape{c.InShape[0], c.InShape[1], c.InShape[0]}, Out: c.Out, OutShape: c.OutShape}, Eps{a.Eps})
	},
	Cases: normGradCases(func(x Shape) []Shape { return []Shape{x, {2, x[1]}} }, 2),
})

// NormFusedSums appends channel_norm_sums in the fused form a. affine are gamma
// and beta with ReLU, else none. Only the pass fuse-norms calls it.
func NormFusedSums(b *Builder, a NormGrad, x, mom, dy Value, affine ...Value) Value {
	return normFusedSums.add(b, a, append([]Value{x, mom, dy}, affine...)...)
}

// normFusedGrad is the gradient with respect to x, including that through the
// batch moments. It is the second of two sweeps over the field.
var normFusedGrad = Define(Spec[NormGrad]{
	Name: "channel_norm_fused_grad",
	Doc: "Gradient of a batch normalisation with respect to x, including that through the moments: gamma·r·(dy − Σdy/n − x̂·Σ(dy·x̂)/n) with " +
		"r = (variance + eps)^−½ and x̂ = (x − mean)·r, from x [N C …], moments [2 C], gamma [C], the sums [2 C] and dy; behind ReLU with beta [C].",
	Source: "channel_norm_grad, channel_norm_moments_grad, channel_moments_grad, add, slice and relu_grad; inserted by the pass fuse-norms",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a NormGrad) (Shape, error) {
		if err := a.check(in, 4, 1); err != nil {
			return nil, err
		}
		if !in[1].Equal(Shape{2, in[2].Size()}) || !in[3].Equal(in[1]) {
			return nil, shapeError("operands %v, want x, moments [2 C], gamma [C], sums [2 C], dy", in)
		}
		return in[0].Clone(), perChannel(in[0], in[2])
	},
	FLOPs:   func(_ []Shape, out Shape, _ NormGrad) int64 { return 4 * int64(out.Size()) },
	Bytes:   normGradBytes(4),
	Class:   graph.Normalisation,
	InPlace: inPlace[NormGrad](0, 4),
	Ref: func(c Call, a NormGrad) {
		ch := c.OutShape[1]
		n := float64(c.OutShape.Size() / ch)
		g := a.gatedGrad(c, 4, 2, 5)
		eachChannel(c.OutShape, func(k, lo, hi int) {
			r := 1 / math.Sqrt(c.In[1][ch+k]+a.Eps)
			for i := lo; i < hi; i++ {
				c.Out[i] = c.In[2][k] * r * (g[i] - c.In[3][k]/n - (c.In[0][i]-c.In[1][k])*r*c.In[3][ch+k]/n)
			}
		})
	},
	Cases: normGradCases(func(x Shape) []Shape { return []Shape{x, {2, x[1]}, {x[1]}, {2, x[1]}} }, 1),
})

// NormFusedGrad appends the gradient of batch normalisation with respect to x
// in the fused form a. beta is used with ReLU only. Only the pass fuse-norms
// calls it.
func NormFusedGrad(b *Builder, x, mom, gamma, sums, dy, beta Value, a NormGrad) Value {
	if !a.ReLU {
		return normFusedGrad.add(b, a, x, mom, gamma, sums, dy)
	}
	return normFusedGrad.add(b, a, x, mom, gamma, sums, dy, beta)
}
