package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// LocalConv is the geometry of a locally connected convolution: filter size
// along level, latitude, longitude. Stride and dilation are 1.
type LocalConv struct {
	Size [3]int // taps along level, latitude, longitude; at least 1 each
	Pad  [3]Pad
}

// conv is the geometry of the corresponding convolution.
func (a LocalConv) conv() Conv { return Conv{Pad: a.Pad}.withDefaults() }

// taps is the number of values that a filter reads from each channel.
func (a LocalConv) taps() int { return a.Size[0] * a.Size[1] * a.Size[2] }

// shared is the shape of the filter of the corresponding convolution, [O C kD
// kH kW].
func (a LocalConv) shared(out, in int) Shape {
	return Shape{out, in, a.Size[0], a.Size[1], a.Size[2]}
}

// Filter is the shape of the filters that compute out channels from x: [out
// C·taps D' H' W'].
//
// Errors: ErrShape if x is not a field, or is smaller than the filter.
func (a LocalConv) Filter(x Shape, out int) (Shape, error) {
	if len(x) != 5 || out < 1 || min(a.Size[0], a.Size[1], a.Size[2]) < 1 {
		return nil, shapeError("x is %v, want [N C D H W]; %d channels and filter size %v must be at least 1", x, out, a.Size)
	}
	y, err := convShape(x, a.shared(out, x[1]), a.conv())
	if err != nil {
		return nil, err
	}
	return Shape{out, x[1] * a.taps(), y[2], y[3], y[4]}, nil
}

// result is the shape rule of the convolution of x with filters w.
func (a LocalConv) result(x, w Shape) (Shape, error) {
	if len(w) != 5 {
		return nil, shapeError("filters %v, want [O C·taps D' H' W']", w)
	}
	want, err := a.Filter(x, w[0])
	if err != nil {
		return nil, err
	}
	if !want.Equal(w) {
		return nil, shapeError("filters are %v; x %v with filter size %v wants %v", w, x, a.Size, want)
	}
	return Shape{x[0], w[0], w[2], w[3], w[4]}, nil
}

// window is the neighbourhood that one result element reads.
func (a LocalConv) window() Window {
	w := a.conv().window(a.shared(1, 1))
	w.Unshared = true
	return w
}

// shardAttrs returns the geometry of the shard of a rank.
func (a LocalConv) shardAttrs(l graph.Shard) LocalConv {
	a.Pad = a.conv().shardAttrs(l).Pad
	return a
}

// LocalConvGrad is a locally connected convolution with the shape To of its
// input.
type LocalConvGrad struct {
	LocalConv
	To Shape
}

// localConv is the locally connected convolution. As for conv3d, it and its two
// gradients are the partial derivatives of one trilinear form in x, w and dy.
var localConv = Define(Spec[LocalConv]{
	Name:   "local_conv",
	Doc:    "Locally connected convolution of x [N C D H W] with one filter per point, w [O C·taps D' H' W'] → [N O D' H' W'].",
	Source: "Grönquist et al. 2021, doi:10.1098/rsta.2020.0092, the locally connected networks",
	Shape: func(in []Shape, a LocalConv) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want 2", len(in))
		}
		return a.result(in[0], in[1])
	},
	Window:     func(_ []Shape, a LocalConv) Window { return a.window() },
	Class:      graph.Contraction,
	ShardAttrs: LocalConv.shardAttrs,
	FLOPs: func(in []Shape, out Shape, a LocalConv) int64 {
		return convFLOPs(in[0], a.shared(out[1], in[0][1]), out, a.conv())
	},
	Ref: func(c Call, a LocalConv) {
		clear(c.Out)
		a.each(c.InShape[0], c.OutShape, func(x, w, y int) { c.Out[y] += c.In[1][w] * c.In[0][x] })
	},
	Cases: localConvCases(func(x, w, _ Shape) []Shape { return []Shape{x, w} }, func(a LocalConv, _ Shape) LocalConv { return a }),
})

// Conv3DLocal is a locally connected convolution: every point p of the result
// has its own filter,
//
//	y[n,o,p] = Σ_c Σ_t w[o,c·taps+t,p] · x[n,c,p − pad + t]
//
// with taps t in row-major order of level, latitude, longitude.
//
// Shape: x [N C D H W], w [O C·taps D' H' W'] → [N O D' H' W'], D' = D + 2·pad
// − kD + 1.
// Gradient: local_conv_grad_data and local_conv_grad_filter.
// Window: filter size and padding of each axis.
// Memory: the filters take O·C·taps fields.
// Errors: ErrShape.
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
func Conv3DLocal(b *Builder, x, w Value, a LocalConv) Value { return localConv.add(b, a, x, w) }

// localConvGradData is the gradient with respect to x.
var localConvGradData = Define(Spec[LocalConvGrad]{
	Name:   "local_conv_grad_data",
	Doc:    "Gradient of local_conv with respect to its input: dy [N O D' H' W'], filters w [O C·taps D' H' W'] → [N C D H W].",
	Source: "the adjoint of local_conv",
	Shape: func(in []Shape, a LocalConvGrad) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want 2", len(in))
		}
		y, err := a.result(a.To, in[1])
		if err == nil && !y.Equal(in[0]) {
			err = shapeError("dy is %v; filters %v give %v", in[0], in[1], y)
		}
		return a.To.Clone(), err
	},
	Class: graph.Contraction,
	Window: func(_ []Shape, a LocalConvGrad) Window {
		w := a.window()
		w.Adjoint = true
		return w
	},
	ShardAttrs: func(a LocalConvGrad, l graph.Shard) LocalConvGrad {
		return LocalConvGrad{a.LocalConv.shardAttrs(l), l.Shape}
	},
	FLOPs: func(in []Shape, out Shape, a LocalConvGrad) int64 {
		return convFLOPs(out, a.shared(in[0][1], out[1]), in[0], a.conv())
	},
	Ref: func(c Call, a LocalConvGrad) {
		clear(c.Out)
		a.each(c.OutShape, c.InShape[0], func(x, w, y int) { c.Out[x] += c.In[1][w] * c.In[0][y] })
	},
	Cases: localConvCases(func(_, w, y Shape) []Shape { return []Shape{y, w} },
		func(a LocalConv, x Shape) LocalConvGrad { return LocalConvGrad{a, x} }),
})

// localConvGradFilter is the gradient with respect to the filters.
var localConvGradFilter = Define(Spec[LocalConv]{
	Name:   "local_conv_grad_filter",
	Doc:    "Gradient of local_conv with respect to its filters: x [N C D H W], dy [N O D' H' W'] → [O C·taps D' H' W'].",
	Source: "the adjoint of local_conv",
	Shape: func(in []Shape, a LocalConv) (Shape, error) {
		if len(in) != 2 || len(in[1]) != 5 {
			return nil, shapeError("operands %v, want x and dy", in)
		}
		w, err := a.Filter(in[0], in[1][1])
		if err == nil && (in[0][0] != in[1][0] || !w[2:].Equal(in[1][2:])) {
			err = shapeError("x is %v and dy %v, which do not fit filters %v", in[0], in[1], w)
		}
		return w, err
	},
	Class: graph.Contraction,
	Window: func(_ []Shape, a LocalConv) Window {
		w := a.window()
		w.CorrelateWith, w.FullAxes, w.Additive = 1, []int{0, 1}, true
		return w
	},
	ShardAttrs: LocalConv.shardAttrs,
	FLOPs: func(in []Shape, _ Shape, a LocalConv) int64 {
		return convFLOPs(in[0], a.shared(in[1][1], in[0][1]), in[1], a.conv())
	},
	Ref: func(c Call, a LocalConv) {
		clear(c.Out)
		a.each(c.InShape[0], c.InShape[1], func(x, w, y int) { c.Out[w] += c.In[0][x] * c.In[1][y] })
	},
	Cases: localConvCases(func(x, _, y Shape) []Shape { return []Shape{x, y} }, func(a LocalConv, _ Shape) LocalConv { return a }),
})

// Connects the gradients: each of the three is differentiated by the other two.
func init() {
	localConv.SetGrad(func(b *Builder, in []Value, _, dy Value, a LocalConv) []Value {
		return []Value{localConvGradData.add(b, LocalConvGrad{a, in[0].Shape()}, dy, in[1]), localConvGradFilter.add(b, a, in[0], dy)}
	})
	localConvGradData.SetGrad(func(b *Builder, in []Value, _, dx Value, a LocalConvGrad) []Value {
		return []Value{localConv.add(b, a.LocalConv, dx, in[1]), localConvGradFilter.add(b, a.LocalConv, dx, in[0])}
	})
	localConvGradFilter.SetGrad(func(b *Builder, in []Value, _, dw Value, a LocalConv) []Value {
		return []Value{localConvGradData.add(b, LocalConvGrad{a, in[0].Shape()}, in[1], dw), localConv.add(b, a, in[0], dw)}
	})
}

// each visits every product of input, filter and result once, by element
// offsets. For every element, the products come in row-major order of the other
// two operands.
func (a LocalConv) each(xs, ys Shape, visit func(x, w, y int)) {
	var taps [3][]int
	for i := range 3 {
		taps[i] = a.conv().taps(i, xs[i+2], a.Size[i], ys[i+2])
	}
	points := ys[2:].Size()
	for n := range ys[0] {
		for o := range ys[1] {
			for p := range points {
				d, h, l := p/ys[4]/ys[3], p/ys[4]%ys[3], p%ys[4]
				y := (n*ys[1]+o)*points + p
				w := o*xs[1]*a.taps()*points + p
				for c := range xs[1] {
					xc := (n*xs[1] + c) * xs[2]
					for _, jd := range taps[0][d*a.Size[0] : (d+1)*a.Size[0]] {
						for _, jh := range taps[1][h*a.Size[1] : (h+1)*a.Size[1]] {
							for _, jl := range taps[2][l*a.Size[2] : (l+1)*a.Size[2]] {
								if min(jd, jh, jl) >= 0 {
									visit(((xc+jd)*xs[3]+jh)*xs[4]+jl, w, y)
								}
								w += points
							}
						}
					}
				}
			}
		}
	}
}

// LocalRun is N products of consecutive filter values, inputs and results of
// one tap. X and Y are the offsets of the first ones within a channel, Filter
// that within the filters of a channel pair.
type LocalRun struct{ X, Filter, Y, N int }

// Runs lists the products of one source channel with one result channel, tap by
// tap and row by row. Kernels that follow the list need no geometry of their
// own.
func (a LocalConv) Runs(x, y Shape) []LocalRun {
	var taps [3][]int
	for i := range 3 {
		taps[i] = a.conv().taps(i, x[i+2], a.Size[i], y[i+2])
	}
	rows := a.conv().rows(taps[2], a.Size[2], y[4])
	points := y[2:].Size()
	var runs []LocalRun
	for t := range a.Size[0] * a.Size[1] {
		td, th := t/a.Size[1], t%a.Size[1]
		for d := range y[2] {
			for h := range y[3] {
				jd, jh := taps[0][d*a.Size[0]+td], taps[1][h*a.Size[1]+th]
				if min(jd, jh) < 0 {
					continue
				}
				from, to := (jd*x[3]+jh)*x[4], (d*y[3]+h)*y[4]
				for _, r := range rows {
					runs = append(runs, LocalRun{from + r.x, (t*a.Size[2]+r.w)*points + to + r.y, to + r.y, r.n})
				}
			}
		}
	}
	return runs
}

// localConvCases returns the test geometries for the convolution and its
// gradients.
func localConvCases[A any](in func(x, w, y Shape) []Shape, attrs func(a LocalConv, x Shape) A) []Case[A] {
	var out []Case[A]
	for _, c := range []struct {
		name string
		x    Shape
		to   int
		a    LocalConv
	}{
		{"1x1x1", Shape{3, 7, 1, 5, 6}, 1, LocalConv{Size: [3]int{1, 1, 1}}},
		{"1x3x3, periodic", Shape{2, 3, 2, 5, 8}, 1, LocalConv{Size: [3]int{1, 3, 3}, Pad: SameGlobal(1, 3, 3)}},
		{"1x3x3, two results", Shape{2, 3, 1, 6, 5}, 2, LocalConv{Size: [3]int{1, 3, 3}, Pad: Same(1, 3, 3)}},
		{"3x1x5, unpadded levels", Shape{2, 2, 4, 5, 7}, 3, LocalConv{Size: [3]int{3, 1, 5}, Pad: [3]Pad{{}, {}, {Size: 2, Periodic: true}}}},
	} {
		w, err := c.a.Filter(c.x, c.to)
		if err != nil {
			panic("local_conv case " + c.name + ": " + err.Error())
		}
		y := Shape{c.x[0], w[0], w[2], w[3], w[4]}
		out = append(out, Case[A]{Name: c.name, In: in(c.x, w, y), A: attrs(c.a, c.x)})
	}
	return out
}
