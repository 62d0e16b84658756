package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Moments of a batch are a value [2 C]: row 0 holds the mean of each channel,
// row 1 the variance (divisor n).

// momentsShape is the shape rule of operations that give two numbers per
// channel.
func momentsShape(x Shape) (Shape, error) {
	if len(x) < 2 {
		return nil, shapeError("x is %v, want [N C …]", x)
	}
	return Shape{2, x[1]}, nil
}

// perChannel checks that each of vs holds one number per channel of x.
func perChannel(x Shape, vs ...Shape) error {
	for _, v := range vs {
		if len(x) < 2 || len(v) != 1 || v[0] != x[1] {
			return shapeError("x is %v, values per channel are %v; want [N C …] and [C]", x, v)
		}
	}
	return nil
}

// channelMoments computes the batch statistics in two passes: the mean first,
// then the squared deviations, which avoids cancellation. At inference the
// running statistics replace it.
var channelMoments = Define(Spec[none]{
	Name:   "channel_moments",
	Doc:    "Mean and variance (divisor n) of each channel of x [N C …] → [2 C]; at inference the running mean and variance [C].",
	Source: "Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1",
	Shape: func(in []Shape, _ none) (Shape, error) {
		if len(in) != 3 {
			return nil, shapeError("%d operands, want x, running mean and variance", len(in))
		}
		if err := perChannel(in[0], in[1], in[2]); err != nil {
			return nil, err
		}
		return momentsShape(in[0])
	},
	Grad: func(b *Builder, in []Value, out, dy Value, _ none) []Value {
		return []Value{channelMomentsGrad.add(b, none{}, in[0], out, dy), {}, {}}
	},
	Infer: func(b *Builder, in []Value, _ none) Value {
		c := in[1].Dim(0)
		return Concat(b, 0, Reshape(b, in[1], Shape{1, c}), Reshape(b, in[2], Shape{1, c}))
	},
	Window: func(in []Shape, _ none) Window { return Window{FullAxes: allBut(in[0], 1)} },
	Split:  graph.SplitMoments, Class: graph.Normalisation,
	TieChannels: func(t graph.ChannelConstraints, in []Shape, _ Shape, _ none) {
		t.TieAxes(0, 1, graph.Result, 1)
		t.TieAxes(1, 0, graph.Result, 1)
		t.TieAxes(2, 0, graph.Result, 1)
		t.PinAxes(graph.Result, "it holds mean and variance", 0)
		t.PinAxes(0, t.Description()+" sums over it", allBut(in[0], 1)...)
	},
	FLOPs: func(in []Shape, _ Shape, _ none) int64 { return 4 * int64(in[0].Size()) },
	Ref: func(c Call, _ none) {
		ch := c.OutShape[1]
		n := float64(c.InShape[0].Size() / ch)
		clear(c.Out)
		eachChannel(c.InShape[0], func(k, lo, hi int) {
			for _, v := range c.In[0][lo:hi] {
				c.Out[k] += v / n
			}
		})
		eachChannel(c.InShape[0], func(k, lo, hi int) {
			for _, v := range c.In[0][lo:hi] {
				c.Out[ch+k] += (v - c.Out[k]) * (v - c.Out[k]) / n
			}
		})
	},
	Cases: []Case[none]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {4}, {4}}, Fixed: []int{1, 2}},
		{Name: "2-D", In: []Shape{{5, 3}, {3}, {3}}, Fixed: []int{1, 2}},
	},
})

// channelMomentsGrad is the gradient of the moments: dx = (dmean + 2·(x −
// mean)·dvar)/n. The term of the mean within the variance vanishes, because
// deviations sum to zero.
var channelMomentsGrad = Define(Spec[none]{
	Name:   "channel_moments_grad",
	Doc:    "Gradient of channel_moments from x, the moments [2 C] and their gradient [2 C]: (dmean + 2 (x − mean) dvar)/n.",
	Source: "derivative of mean and variance",
	NoGrad: noSecondOrder,
	Shape:  shapeOfOperand[none](0),
	Window: func([]Shape, none) Window { return Window{} },
	Split:  graph.SplitMomentsGrad, Fuses: graph.FuseMomentsGrad, Class: graph.Normalisation,
	FLOPs:   func(in []Shape, _ Shape, _ none) int64 { return 3 * int64(in[0].Size()) },
	InPlace: inPlace[none](0),
	Ref: func(c Call, _ none) {
		ch := c.OutShape[1]
		n := float64(c.OutShape.Size() / ch)
		eachChannel(c.OutShape, func(k, lo, hi int) {
			for i := lo; i < hi; i++ {
				c.Out[i] = (c.In[2][k] + 2*(c.In[0][i]-c.In[1][k])*c.In[2][ch+k]) / n
			}
		})
	},
	Cases: []Case[none]{{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {2, 4}, {2, 4}}, Low: 0.5, High: 2}},
})

// Eps is added to a variance before its square root is taken, so that constant
// channels do not divide by zero.
type Eps struct{ Eps float64 }

// channelNorm applies given moments. The gradient treats the moments as an
// operand. So statistics of the batch and stored statistics share one
// operation.
var channelNorm = Define(Spec[Eps]{
	Name:   "channel_norm",
	Doc:    "(x − mean)/√(variance + eps)·gamma + beta per channel: x [N C …], moments [2 C], gamma [C], beta [C].",
	Source: "Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1",
	Shape: func(in []Shape, _ Eps) (Shape, error) {
		if len(in) != 4 || !in[1].Equal(Shape{2, in[2].Size()}) {
			return nil, shapeError("operands %v, want x, moments [2 C], gamma [C], beta [C]", in)
		}
		return in[0].Clone(), perChannel(in[0], in[2], in[3])
	},
	Grad: func(b *Builder, in []Value, _, dy Value, a Eps) []Value {
		x, mom, gamma := in[0], in[1], in[2]
		sums := channelNormSums.add(b, a, x, mom, dy)
		row := func(i int) Value { return Reshape(b, Slice(b, sums, 0, i, i+1), gamma.Shape()) }
		return []Value{
			channelNormGrad.add(b, a, dy, mom, gamma),
			channelNormMomentsGrad.add(b, a, mom, gamma, sums),
			row(1),
			row(0),
		}
	},
	FLOPs:   func(_ []Shape, out Shape, _ Eps) int64 { return 2 * int64(out.Size()) },
	InPlace: inPlace[Eps](0),
	Fuses:   graph.FuseNorm, Class: graph.Normalisation,
	TieChannels: func(t graph.ChannelConstraints, in []Shape, out Shape, a Eps) {
		tieAllAxes(t, in, out, a)
		t.TieAxes(1, 1, graph.Result, 1)
		t.TieAxes(2, 0, graph.Result, 1)
		t.TieAxes(3, 0, graph.Result, 1)
	},
	Ref: func(c Call, a Eps) {
		ch := c.OutShape[1]
		eachChannel(c.OutShape, func(k, lo, hi int) {
			r := c.In[2][k] / math.Sqrt(c.In[1][ch+k]+a.Eps)
			for i := lo; i < hi; i++ {
				c.Out[i] = (c.In[0][i]-c.In[1][k])*r + c.In[3][k]
			}
		})
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {2, 4}, {4}, {4}}, A: Eps{1e-5}, Low: 0.5, High: 2},
		{Name: "2-D", In: []Shape{{5, 3}, {2, 3}, {3}, {3}}, A: Eps{1e-3}, Low: 0.5, High: 2},
	},
})

// channelNormSums computes the gradients of beta and gamma: Σ dy and Σ dy·x̂,
// x̂ = (x − mean)/√(variance + eps).
var channelNormSums = Define(Spec[Eps]{
	Name:   "channel_norm_sums",
	Doc:    "Σ dy and Σ dy·(x − mean)/√(variance + eps) per channel from x, moments [2 C] and dy → [2 C].",
	Source: "derivative of channel_norm",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, _ Eps) (Shape, error) {
		if len(in) != 3 || !in[0].Equal(in[2]) {
			return nil, shapeError("operands %v, want x, moments and dy", in)
		}
		return momentsShape(in[0])
	},
	Window: func(in []Shape, _ Eps) Window { return Window{FullAxes: allBut(in[0], 1), Additive: true} },
	Fuses:  graph.FuseNormSums, Class: graph.Normalisation,
	FLOPs: func(in []Shape, _ Shape, _ Eps) int64 { return 4 * int64(in[0].Size()) },
	Ref: func(c Call, a Eps) {
		ch := c.OutShape[1]
		clear(c.Out)
		eachChannel(c.InShape[0], func(k, lo, hi int) {
			r := 1 / math.Sqrt(c.In[1][ch+k]+a.Eps)
			for i := lo; i < hi; i++ {
				c.Out[k] += c.In[2][i]
				c.Out[ch+k] += c.In[2][i] * (c.In[0][i] - c.In[1][k]) * r
			}
		})
	},
	Cases: []Case[Eps]{{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {2, 4}, {3, 4, 2, 5, 6}}, A: Eps{1e-5}, Low: 0.5, High: 2}},
})

// channelNormGrad is the gradient with respect to x at fixed moments.
// channel_moments_grad adds the part through the moments.
var channelNormGrad = Define(Spec[Eps]{
	Name:   "channel_norm_grad",
	Doc:    "Gradient of channel_norm with respect to x, with the moments held fixed: dy·gamma/√(variance + eps) from dy [N C …], moments [2 C], gamma [C].",
	Source: "derivative of channel_norm",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, _ Eps) (Shape, error) {
		if len(in) != 3 || !in[1].Equal(Shape{2, in[2].Size()}) {
			return nil, shapeError("operands %v, want dy, moments [2 C], gamma [C]", in)
		}
		return in[0].Clone(), perChannel(in[0], in[2])
	},
	InPlace: inPlace[Eps](0),
	Fuses:   graph.FuseNormGrad, Class: graph.Normalisation,
	Ref: func(c Call, a Eps) {
		ch := c.OutShape[1]
		eachChannel(c.OutShape, func(k, lo, hi int) {
			r := c.In[2][k] / math.Sqrt(c.In[1][ch+k]+a.Eps)
			for i := lo; i < hi; i++ {
				c.Out[i] = c.In[0][i] * r
			}
		})
	},
	Cases: []Case[Eps]{
		{Name: "5-D", In: []Shape{{3, 4, 2, 5, 6}, {2, 4}, {4}}, A: Eps{1e-5}, Low: 0.5, High: 2},
		{Name: "2-D", In: []Shape{{5, 3}, {2, 3}, {3}}, A: Eps{1e-3}, Low: 0.5, High: 2},
	},
})

// channelNormMomentsGrad is the gradient with respect to mean and variance. The
// sums of channel_norm_sums suffice for it, so it does not read the field.
var channelNormMomentsGrad = Define(Spec[Eps]{
	Name: "channel_norm_moments_grad",
	Doc: "Gradient of channel_norm with respect to the moments: −gamma·r·Σ dy and −½·gamma·r²·Σ dy·x̂ with r = (variance + eps)^−½, " +
		"from moments [2 C], gamma [C] and the sums of channel_norm_sums [2 C].",
	Source: "derivative of channel_norm",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, _ Eps) (Shape, error) {
		if len(in) != 3 || !in[0].Equal(Shape{2, in[1].Size()}) || !in[2].Equal(in[0]) {
			return nil, shapeError("operands %v, want moments [2 C], gamma [C], sums [2 C]", in)
		}
		return in[0].Clone(), nil
	},
	Window: func([]Shape, Eps) Window { return Window{FullAxes: []int{0}} },
	Fuses:  graph.FuseNormMomentsGrad, Class: graph.Normalisation,
	FLOPs: func(_ []Shape, out Shape, _ Eps) int64 { return 3 * int64(out.Size()) },
	Ref:   func(c Call, a Eps) { NormMomentsGrad(c.Out, c.In[0], c.In[1], c.In[2], a.Eps) },
	Cases: []Case[Eps]{{Name: "channels", In: []Shape{{2, 5}, {5}, {2, 5}}, A: Eps{1e-5}, Low: 0.5, High: 2}},
})

// NormMomentsGrad is the loop of channel_norm_moments_grad for any element
// type.
//
// Shape: mom, sums and out [2 C], gamma [C].
func NormMomentsGrad[T Elem](out, mom, gamma, sums []T, eps float64) {
	for k, c := 0, len(gamma); k < c; k++ {
		r := 1 / math.Sqrt(float64(mom[c+k])+eps)
		factor := float64(gamma[k]) * r
		out[k] = T(-factor * float64(sums[k]))
		out[c+k] = T(-factor * r * float64(sums[c+k]) / 2)
	}
}

// BatchNormOptions holds the constants of batch normalisation. The zero value
// means PyTorch's defaults: eps 1e-5, momentum 0.1.
type BatchNormOptions struct{ Eps, Momentum float64 }

// BatchNorm normalises every channel, then scales and shifts it:
//
//	y = (x − mean)/√(variance + eps) · gamma + beta
//
// In training, mean and variance are those of the batch. The states runMean and
// runVar follow them as moving averages with weight momentum on the new value;
// runVar uses the divisor n−1, as PyTorch does. At inference the running
// statistics are used, so a result does not depend on its batch.
//
// Shape: x [N C …]; gamma, beta, runMean, runVar [C]; the last two are States.
// Gradient: through the batch moments, to x, gamma and beta.
// Window: in training the whole batch and field of a channel.
// Errors: ErrShape.
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167; torch.nn.BatchNorm3d.
func BatchNorm(b *Builder, x, gamma, beta, runMean, runVar Value, o BatchNormOptions) Value {
	if o.Eps == 0 {
		o.Eps = 1e-5
	}
	if o.Momentum == 0 {
		o.Momentum = 0.1
	}
	mom := channelMoments.add(b, none{}, x, runMean, runVar)
	y := channelNorm.add(b, Eps{o.Eps}, x, mom, gamma, beta)
	if !y.Valid() {
		return y
	}
	c := gamma.Dim(0)
	n := float64(x.Shape().Size() / c)
	move := func(state Value, row int, factor float64) {
		batch := Reshape(b, Slice(b, mom, 0, row, row+1), Shape{c})
		b.Assign(state, Add(b, Scale(b, state, 1-o.Momentum), Scale(b, batch, o.Momentum*factor)))
	}
	move(runMean, 0, 1)
	move(runVar, 1, n/math.Max(n-1, 1))
	return y
}
