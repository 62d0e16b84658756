package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Pool is the geometry of pooling over level, latitude and longitude: windows
// of Size at distance Stride (0 means Size), without padding. Elements after
// the last whole window are left out, as in PyTorch.
type Pool struct{ Size, Stride [3]int }

// withDefaults replaces a stride of 0 by the size.
func (a Pool) withDefaults() Pool {
	for i := range 3 {
		if a.Stride[i] == 0 {
			a.Stride[i] = a.Size[i]
		}
	}
	return a
}

// shape is the shape rule of pooling.
func (a Pool) shape(x Shape) (Shape, error) {
	if len(x) != 5 {
		return nil, shapeError("x is %v, want [N C D H W]", x)
	}
	out := x.Clone()
	for i := range 3 {
		if a.Size[i] < 1 || a.Stride[i] < 1 || x[i+2] < a.Size[i] {
			return nil, shapeError("window %v with stride %v does not fit x %v", a.Size, a.Stride, x)
		}
		out[i+2] = (x[i+2]-a.Size[i])/a.Stride[i] + 1
	}
	return out, nil
}

// window is the neighbourhood of pooling.
func (a Pool) window() Window {
	axes := []WindowAxis{{Size: 1, Stride: 1, Dilation: 1}, {Size: 1, Stride: 1, Dilation: 1}}
	for i := range 3 {
		axes = append(axes, WindowAxis{Size: a.Size[i], Stride: a.Stride[i], Dilation: 1})
	}
	return Window{Axes: axes}
}

// adjoint is the window of a gradient that reads dy as the given operand.
func (a Pool) adjoint(operand int) Window {
	w := a.window()
	w.Operand, w.Adjoint = operand, true
	return w
}

// volume is the number of elements of a window.
func (a Pool) volume() int { return a.Size[0] * a.Size[1] * a.Size[2] }

// each visits every element x of every window y in row-major order, by offsets.
func (a Pool) each(xs, ys Shape, visit func(x, y int)) {
	y := 0
	for p := range ys[0] * ys[1] {
		for d := range ys[2] {
			for h := range ys[3] {
				for w := range ys[4] {
					for i := range a.Size[0] {
						for j := range a.Size[1] {
							row := ((p*xs[2]+d*a.Stride[0]+i)*xs[3] + h*a.Stride[1] + j) * xs[4]
							for k := range a.Size[2] {
								visit(row+w*a.Stride[2]+k, y)
							}
						}
					}
					y++
				}
			}
		}
	}
}

// poolCases are the geometries with which pooling is tested.
func poolCases() []Case[Pool] {
	return []Case[Pool]{
		{Name: "1x2x2", In: []Shape{{2, 3, 3, 6, 8}}, A: Pool{Size: [3]int{1, 2, 2}}.withDefaults()},
		{Name: "1x2x2, odd sides", In: []Shape{{2, 2, 2, 7, 9}}, A: Pool{Size: [3]int{1, 2, 2}}.withDefaults()},
		{Name: "2x3x2", In: []Shape{{1, 2, 4, 6, 7}}, A: Pool{Size: [3]int{2, 3, 2}}.withDefaults()},
		{Name: "overlapping", In: []Shape{{2, 1, 3, 6, 7}}, A: Pool{Size: [3]int{2, 3, 3}, Stride: [3]int{1, 2, 1}}},
	}
}

// PoolGrad is a pooling with the shape To of its input.
type PoolGrad struct {
	Pool
	To Shape
}

// maxPool takes the largest element of a window.
var maxPool = Define(Spec[Pool]{
	Name:   "max_pool",
	Doc:    "Maximum over windows of level, latitude, longitude: x [N C D H W] → [N C D' H' W']; NaN propagates.",
	Source: "Çiçek et al. 2016, doi:10.1007/978-3-319-46723-8_49",
	Shape:  func(in []Shape, a Pool) (Shape, error) { return a.shape(in[0]) },
	Grad: func(b *Builder, in []Value, out, dy Value, a Pool) []Value {
		return []Value{maxPoolGrad.add(b, a, in[0], out, dy)}
	},
	Window:         func(_ []Shape, a Pool) Window { return a.window() },
	FLOPs:          func(_ []Shape, out Shape, a Pool) int64 { return int64(out.Size() * a.volume()) },
	TieChannels:    tieWindowed[Pool],
	PreservesScale: func(a Pool) bool { return a.Size == a.Stride },
	Ref:            maxima,
	Cases:          poolCases(),
})

// maxima is the reference kernel of max_pool. A NaN in a window gives NaN.
func maxima(c Call, a Pool) {
	for i := range c.Out {
		c.Out[i] = math.Inf(-1)
	}
	a.each(c.InShape[0], c.OutShape, func(x, y int) {
		if v := c.In[0][x]; v > c.Out[y] || v != v {
			c.Out[y] = v
		}
	})
}

// maxPoolGrad selects the element again by comparison with the result, so no
// indices are stored.
var maxPoolGrad = Define(Spec[Pool]{
	Name:   "max_pool_grad",
	Doc:    "Gradient of max_pool from x, its result y and dy: each dy goes to the first element of its window that equals y.",
	Source: "adjoint of the selection; the first of equal elements, as in torch.nn.MaxPool3d",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a Pool) (Shape, error) {
		if len(in) != 3 {
			return nil, shapeError("%d operands, want x, y and dy", len(in))
		}
		y, err := a.shape(in[0])
		if err == nil && (!y.Equal(in[1]) || !y.Equal(in[2])) {
			err = shapeError("y is %[3]v and dy %[4]v, x %[1]v pools to %[2]v", in[0], y, in[1], in[2])
		}
		return in[0].Clone(), err
	},
	Window: func(_ []Shape, a Pool) Window { return a.adjoint(2) },
	Ref: func(c Call, a Pool) {
		clear(c.Out)
		done := make([]bool, len(c.In[1]))
		a.each(c.InShape[0], c.InShape[1], func(x, y int) {
			if v := c.In[0][x]; !done[y] && (v == c.In[1][y] || v != v) {
				done[y] = true
				c.Out[x] += c.In[2][y]
			}
		})
	},
	Cases: func() []Case[Pool] {
		cs := poolCases()
		for i, c := range cs {
			y, err := c.A.shape(c.In[0])
			if err != nil {
				panic("max_pool_grad case " + c.Name + ": " + err.Error())
			}
			x := c.In[0]
			cs[i].In = []Shape{x, y, y}
			cs[i].Make = func(in [][]float64) {
				maxima(Call{In: in[:1], InShape: []Shape{x}, Out: in[1], OutShape: y}, c.A)
			}
		}
		return cs
	}(),
})

// MaxPool is the maximum over disjoint windows of the given size.
//
// Shape: x [N C D H W] → [N C ⌊D/k⌋ ⌊H/k⌋ ⌊W/k⌋].
// Missing: NaN in a window gives NaN.
// Gradient: all of dy to the first largest element of the window.
// Window: size k, stride k, unpadded. No halo is needed where shards start at
// multiples of k.
// Errors: ErrShape.
// Source: Çiçek et al. 2016, doi:10.1007/978-3-319-46723-8_49.
func MaxPool(b *Builder, x Value, size [3]int) Value { return MaxPoolOf(b, x, Pool{Size: size}) }

// MaxPoolOf is MaxPool with any stride: windows may overlap.
func MaxPoolOf(b *Builder, x Value, a Pool) Value { return maxPool.add(b, a.withDefaults(), x) }

// avgPool takes the mean of a window.
var avgPool = Define(Spec[Pool]{
	Name:   "avg_pool",
	Doc:    "Mean over windows of level, latitude, longitude: x [N C D H W] → [N C D' H' W'].",
	Source: "torch.nn.AvgPool3d without padding",
	Shape:  func(in []Shape, a Pool) (Shape, error) { return a.shape(in[0]) },
	Grad: func(b *Builder, in []Value, _, dy Value, a Pool) []Value {
		to := in[0].Shape()
		return []Value{avgPoolGrad.add(b, PoolGrad{a, to}, dy)}
	},
	Window:      func(_ []Shape, a Pool) Window { return a.window() },
	FLOPs:       func(_ []Shape, out Shape, a Pool) int64 { return int64(out.Size() * a.volume()) },
	TieChannels: tieWindowed[Pool],
	Ref: func(c Call, a Pool) {
		clear(c.Out)
		a.each(c.InShape[0], c.OutShape, func(x, y int) { c.Out[y] += c.In[0][x] })
		for i := range c.Out {
			c.Out[i] /= float64(a.volume())
		}
	},
	Cases: poolCases(),
})

// avgPoolGrad adds dy/volume to every element of the window.
var avgPoolGrad = Define(Spec[PoolGrad]{
	Name:   "avg_pool_grad",
	Doc:    "Gradient of avg_pool: every element of a window receives its share of dy.",
	Source: "the adjoint of avg_pool",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a PoolGrad) (Shape, error) {
		y, err := a.shape(a.To)
		if err == nil && !y.Equal(in[0]) {
			err = shapeError("dy is %[3]v, %[1]v pools to %[2]v", a.To, y, in[0])
		}
		return a.To.Clone(), err
	},
	Window:     func(_ []Shape, a PoolGrad) Window { return a.adjoint(0) },
	ShardAttrs: func(a PoolGrad, l graph.Shard) PoolGrad { return PoolGrad{a.Pool, l.Shape} },
	Ref: func(c Call, a PoolGrad) {
		clear(c.Out)
		a.each(c.OutShape, c.InShape[0], func(x, y int) { c.Out[x] += c.In[0][y] / float64(a.volume()) })
	},
	Cases: func() []Case[PoolGrad] {
		var cs []Case[PoolGrad]
		for _, c := range poolCases() {
			y, err := c.A.shape(c.In[0])
			if err != nil {
				panic("avg_pool_grad case " + c.Name + ": " + err.Error())
			}
			cs = append(cs, Case[PoolGrad]{Name: c.Name, In: []Shape{y}, A: PoolGrad{c.A, c.In[0]}})
		}
		return cs
	}(),
})

// AvgPool is the mean over disjoint windows of the given size.
//
// Shape: x [N C D H W] → [N C ⌊D/k⌋ ⌊H/k⌋ ⌊W/k⌋].
// Missing: NaN in a window gives NaN.
// Gradient: dy divided by the number of elements of the window, to each of
// them.
// Window: size k, stride k, unpadded. No halo is needed where shards start at
// multiples of k.
// Errors: ErrShape.
// Source: torch.nn.AvgPool3d without padding.
func AvgPool(b *Builder, x Value, size [3]int) Value { return AvgPoolOf(b, x, Pool{Size: size}) }

// AvgPoolOf is AvgPool with any stride: windows may overlap.
func AvgPoolOf(b *Builder, x Value, a Pool) Value { return avgPool.add(b, a.withDefaults(), x) }
