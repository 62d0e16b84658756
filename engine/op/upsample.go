package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Up is the geometry of upsampling over level, latitude, longitude.
type Up struct {
	Scale   [3]int
	WrapLon bool // the last axis is periodic: no clamping at its ends
}

// UpGrad is an upsampling and the shape of its input.
type UpGrad struct {
	Up
	To Shape
}

// shape is the shape rule of upsampling.
func (a Up) shape(x Shape) (Shape, error) {
	if len(x) != 5 {
		return nil, shapeError("x is %v, want [N C D H W]", x)
	}
	out := x.Clone()
	for i, s := range a.Scale {
		if s < 1 {
			return nil, shapeError("scale %v", a.Scale)
		}
		out[i+2] *= s
	}
	return out, nil
}

// Taps lists for every output index of axis i (0 level, 1 latitude, 2
// longitude) of n inputs the two input indices it mixes and the weight of the
// second. Half-pixel centres: output o lies at (o + ½)/scale − ½; beyond the
// ends it is clamped, or wrapped if the axis is periodic.
func (a Up) Taps(i, n int) (lo, hi []int, weight []float64) {
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

// each visits the up to eight products of every output.
func (a Up) each(xs, ys Shape, visit func(x, y int, weight float64)) {
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

// upCases are the geometries with which upsampling is tested.
func upCases() []Case[Up] {
	return []Case[Up]{
		{Name: "1x2x2", In: []Shape{{2, 3, 2, 3, 4}}, A: Up{Scale: [3]int{1, 2, 2}}},
		{Name: "1x2x2, wrapped", In: []Shape{{2, 3, 2, 3, 4}}, A: Up{Scale: [3]int{1, 2, 2}, WrapLon: true}},
		{Name: "2x3x4, wrapped", In: []Shape{{1, 2, 3, 4, 5}}, A: Up{Scale: [3]int{2, 3, 4}, WrapLon: true}},
		{Name: "from one row", In: []Shape{{2, 2, 1, 1, 6}}, A: Up{Scale: [3]int{1, 2, 2}}},
		{Name: "from one column, wrapped", In: []Shape{{2, 2, 1, 3, 1}}, A: Up{Scale: [3]int{1, 2, 2}, WrapLon: true}},
	}
}

// window is the neighbourhood of upsampling: a neighbour on each side.
func (a Up) window() Window {
	axes := []WindowAxis{{Size: 1, Stride: 1, Dilation: 1}, {Size: 1, Stride: 1, Dilation: 1}}
	for i, s := range a.Scale {
		if s == 1 {
			axes = append(axes, WindowAxis{Size: 1, Stride: 1, Dilation: 1})
			continue
		}
		axes = append(axes, WindowAxis{Size: 3, Stride: 1, Dilation: 1, Pad: 1, Up: s, Periodic: a.WrapLon && i == 2})
	}
	return Window{Axes: axes}
}

// local does not wrap longitudes that are cut: what lies beyond comes from elsewhere.
func (a Up) local(l graph.Local) Up {
	a.WrapLon = a.WrapLon && l.Pads[4] < 0
	return a
}

var upsample = Define(Spec[Up]{
	Name:   "upsample",
	Doc:    "Trilinear upsampling by whole factors, half-pixel centres: x [N C D H W] → [N C sD sH sW].",
	Source: "torch.nn.Upsample(mode='trilinear', align_corners=False)",
	Shape:  func(in []Shape, a Up) (Shape, error) { return a.shape(in[0]) },
	Grad: func(b *Builder, in []Value, _, dy Value, a Up) []Value {
		to := in[0].Shape()
		return []Value{upsampleGrad.add(b, UpGrad{a, to}, dy)}
	},
	Window:     func(_ []Shape, a Up) Window { return a.window() },
	Local:      Up.local,
	FLOPs:      func(_ []Shape, out Shape, a Up) int64 { return upFLOPs(out, a) },
	Channels:   alikeInWindows[Up],
	KeepsCodes: func(a Up) bool { return a.Scale == [3]int{1, 2, 2} },
	Ref: func(c Call, a Up) {
		clear(c.Out)
		a.each(c.InShape[0], c.OutShape, func(x, y int, w float64) { c.Out[y] += w * c.In[0][x] })
	},
	Cases: upCases(),
})

// upFLOPs counts two products and a sum per result and axis that is scaled.
func upFLOPs(out Shape, a Up) int64 {
	n := int64(0)
	for _, s := range a.Scale {
		if s > 1 {
			n += 3 * int64(out.Size())
		}
	}
	return n
}

var upsampleGrad = Define(Spec[UpGrad]{
	Name:   "upsample_grad",
	Doc:    "Gradient of upsample: its adjoint applied to dy.",
	Source: "the adjoint of upsample",
	NoGrad: firstOrder,
	Shape: func(in []Shape, a UpGrad) (Shape, error) {
		y, err := a.shape(a.To)
		if err == nil && !y.Equal(in[0]) {
			err = shapeError("%v becomes %v; dy is %v", a.To, y, in[0])
		}
		return a.To.Clone(), err
	},
	Window: func(_ []Shape, a UpGrad) Window {
		w := a.window()
		w.Adjoint = true
		return w
	},
	Local: func(a UpGrad, l graph.Local) UpGrad { return UpGrad{a.Up.local(l), l.To} },
	FLOPs: func(in []Shape, _ Shape, a UpGrad) int64 { return upFLOPs(in[0], a.Up) },
	Ref: func(c Call, a UpGrad) {
		clear(c.Out)
		a.each(c.OutShape, c.InShape[0], func(x, y int, w float64) { c.Out[x] += w * c.In[0][y] })
	},
	Cases: func() []Case[UpGrad] {
		var cs []Case[UpGrad]
		for _, c := range upCases() {
			y, err := c.A.shape(c.In[0])
			if err != nil {
				panic("upsample_grad case " + c.Name + ": " + err.Error())
			}
			cs = append(cs, Case[UpGrad]{Name: c.Name, In: []Shape{y}, A: UpGrad{c.A, c.In[0]}})
		}
		return cs
	}(),
})

// Upsample is trilinear upsampling by whole factors with half-pixel centres:
// result o takes the value at (o + ½)/scale − ½. Beyond the ends the value at
// the end is taken; with wrapLon the last axis is periodic instead.
//
// Shape: x [N C D H W] → [N C scale·D scale·H scale·W].
// Gradient: the adjoint.
// Window: one neighbour on each side along scaled axes.
// Errors: ErrShape.
// Source: torch.nn.Upsample(mode="trilinear", align_corners=False).
func Upsample(b *Builder, x Value, scale [3]int, wrapLon bool) Value {
	return upsample.add(b, Up{scale, wrapLon}, x)
}
