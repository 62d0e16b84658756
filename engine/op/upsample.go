package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Upsampling is the geometry of upsampling over level, latitude and longitude.
type Upsampling struct {
	Scale   [3]int // whole factors, at least 1
	WrapLon bool   // longitude is periodic; otherwise values are clamped at its ends
}

// UpsamplingGrad is an upsampling with the shape To of its input.
type UpsamplingGrad struct {
	Upsampling
	To Shape
}

// shape is the shape rule of upsampling.
func (a Upsampling) shape(x Shape) (Shape, error) {
	if len(x) != 5 {
		return nil, shapeError("x is %v, want [N C D H W]", x)
	}
	out := x.Clone()
	for i, s := range a.Scale {
		if s < 1 {
			return nil, shapeError("scale %v, want factors of at least 1", a.Scale)
		}
		out[i+2] *= s
	}
	return out, nil
}

// Taps lists, for every output index of axis i (0 level, 1 latitude, 2
// longitude) of n inputs, the two input indices that it mixes and the weight of
// the second. Cell centres are aligned: output o lies at (o + ½)/scale − ½ in
// input indices. Beyond the ends the position is clamped, or wraps around if
// the axis is periodic.
func (a Upsampling) Taps(i, n int) (lo, hi []int, weight []float64) {
	s := a.Scale[i]
	wrap := a.WrapLon && i == 2
	for o := range n * s {
		at := (float64(o)+0.5)/float64(s) - 0.5
		if !wrap {
			at = math.Max(at, 0)
		}
		j := int(math.Floor(at))
		w := at - float64(j)
		k := j + 1
		if wrap {
			j, k = (j+n)%n, (k+n)%n
		} else {
			k = min(k, n-1)
		}
		lo, hi, weight = append(lo, j), append(hi, k), append(weight, w)
	}
	return lo, hi, weight
}

// each visits the products of every output: up to eight inputs with their
// weights, by offsets.
func (a Upsampling) each(xs, ys Shape, visit func(x, y int, weight float64)) {
	var lo, hi [3][]int
	var wt [3][]float64
	for i := range 3 {
		lo[i], hi[i], wt[i] = a.Taps(i, xs[i+2])
	}
	y := 0
	for p := range ys[0] * ys[1] {
		for d := range ys[2] {
			for h := range ys[3] {
				for w := range ys[4] {
					for c := range 8 {
						weight := 1.0
						x := p
						for i, o := range [3]int{d, h, w} {
							if c>>(2-i)&1 == 0 {
								weight *= 1 - wt[i][o]
								x = x*xs[i+2] + lo[i][o]
							} else {
								weight *= wt[i][o]
								x = x*xs[i+2] + hi[i][o]
							}
						}
						if weight != 0 {
							visit(x, y, weight)
						}
					}
					y++
				}
			}
		}
	}
}

// upsamplingCases are the geometries with which upsampling is tested.
func upsamplingCases() []Case[Upsampling] {
	return []Case[Upsampling]{
		{Name: "1x2x2", In: []Shape{{2, 3, 2, 3, 4}}, A: Upsampling{Scale: [3]int{1, 2, 2}}},
		{Name: "1x2x2, wrapped", In: []Shape{{2, 3, 2, 3, 4}}, A: Upsampling{Scale: [3]int{1, 2, 2}, WrapLon: true}},
		{Name: "2x3x4, wrapped", In: []Shape{{1, 2, 3, 4, 5}}, A: Upsampling{Scale: [3]int{2, 3, 4}, WrapLon: true}},
		{Name: "from one row", In: []Shape{{2, 2, 1, 1, 6}}, A: Upsampling{Scale: [3]int{1, 2, 2}}},
		{Name: "from one column, wrapped", In: []Shape{{2, 2, 1, 3, 1}}, A: Upsampling{Scale: [3]int{1, 2, 2}, WrapLon: true}},
	}
}

// window is the neighbourhood of upsampling: the inputs on both sides along scaled
// axes.
func (a Upsampling) window() Window {
	axes := []WindowAxis{{Size: 1, Stride: 1, Dilation: 1}, {Size: 1, Stride: 1, Dilation: 1}}
	for i, s := range a.Scale {
		if s == 1 {
			axes = append(axes, WindowAxis{Size: 1, Stride: 1, Dilation: 1})
			continue
		}
		axes = append(axes, WindowAxis{Size: 2, Stride: 1, Dilation: 1, UpFactor: s, Periodic: a.WrapLon && i == 2})
	}
	return Window{Axes: axes}
}

// shardAttrs returns the geometry of the shard of a rank. A partitioned
// longitude does not wrap around: the halo holds the neighbours.
func (a Upsampling) shardAttrs(l graph.Shard) Upsampling {
	a.WrapLon = a.WrapLon && l.Pads[4] < 0
	return a
}

// upsample is separable linear interpolation. Its gradient is the transposed
// interpolation.
var upsample = Define(Spec[Upsampling]{
	Name:   "upsample",
	Doc:    "Trilinear upsampling by whole factors, half-pixel centres: x [N C D H W] → [N C sD sH sW].",
	Source: "torch.nn.Upsample(mode='trilinear', align_corners=False)",
	Shape:  func(in []Shape, a Upsampling) (Shape, error) { return a.shape(in[0]) },
	Grad: func(b *Builder, in []Value, _, dy Value, a Upsampling) []Value {
		to := in[0].Shape()
		return []Value{upsampleGrad.add(b, UpsamplingGrad{a, to}, dy)}
	},
	Window:         func(_ []Shape, a Upsampling) Window { return a.window() },
	ShardAttrs:     Upsampling.shardAttrs,
	FLOPs:          func(_ []Shape, out Shape, a Upsampling) int64 { return upsamplingFLOPs(out, a) },
	TieChannels:    tieWindowed[Upsampling],
	PreservesScale: func(a Upsampling) bool { return a.Scale == [3]int{1, 2, 2} },
	Ref: func(c Call, a Upsampling) {
		clear(c.Out)
		a.each(c.InShape[0], c.OutShape, func(x, y int, w float64) { c.Out[y] += w * c.In[0][x] })
	},
	Cases: upsamplingCases(),
})

// upsamplingFLOPs counts two products and a sum per result and scaled axis.
func upsamplingFLOPs(out Shape, a Upsampling) int64 {
	n := int64(0)
	for _, s := range a.Scale {
		if s > 1 {
			n += 3 * int64(out.Size())
		}
	}
	return n
}

// upsampleGrad is the adjoint: every input receives dy of the outputs that it
// contributes to, times the weights.
var upsampleGrad = Define(Spec[UpsamplingGrad]{
	Name:   "upsample_grad",
	Doc:    "Gradient of upsample: its adjoint applied to dy.",
	Source: "the adjoint of upsample",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a UpsamplingGrad) (Shape, error) {
		y, err := a.shape(a.To)
		if err == nil && !y.Equal(in[0]) {
			err = shapeError("dy is %[3]v, %[1]v upsamples to %[2]v", a.To, y, in[0])
		}
		return a.To.Clone(), err
	},
	Window: func(_ []Shape, a UpsamplingGrad) Window {
		w := a.window()
		w.Adjoint = true
		return w
	},
	ShardAttrs: func(a UpsamplingGrad, l graph.Shard) UpsamplingGrad {
		return UpsamplingGrad{a.Upsampling.shardAttrs(l), l.Shape}
	},
	FLOPs: func(in []Shape, _ Shape, a UpsamplingGrad) int64 { return upsamplingFLOPs(in[0], a.Upsampling) },
	Ref: func(c Call, a UpsamplingGrad) {
		clear(c.Out)
		a.each(c.OutShape, c.InShape[0], func(x, y int, w float64) { c.Out[x] += w * c.In[0][y] })
	},
	Cases: func() []Case[UpsamplingGrad] {
		var cs []Case[UpsamplingGrad]
		for _, c := range upsamplingCases() {
			y, err := c.A.shape(c.In[0])
			if err != nil {
				panic("upsample_grad case " + c.Name + ": " + err.Error())
			}
			cs = append(cs, Case[UpsamplingGrad]{Name: c.Name, In: []Shape{y}, A: UpsamplingGrad{c.A, c.In[0]}})
		}
		return cs
	}(),
})

// Upsample is trilinear interpolation to a grid that is finer by whole factors,
// with aligned cell centres: result o takes the value at (o + ½)/scale − ½.
// Beyond the ends it takes the value at the end. With wrapLon the last axis is
// periodic.
//
// Shape: x [N C D H W] → [N C scale·D scale·H scale·W].
// Gradient: the adjoint.
// Window: one neighbour on each side along scaled axes.
// Errors: ErrShape if x is not 5-D or a factor is below 1.
// Source: torch.nn.Upsample(mode="trilinear", align_corners=False).
func Upsample(b *Builder, x Value, scale [3]int, wrapLon bool) Value {
	return upsample.add(b, Upsampling{scale, wrapLon}, x)
}
