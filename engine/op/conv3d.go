package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Conv is the geometry of a convolution over level, latitude and longitude. The
// zero value is stride 1, dilation 1, no padding, all filter blocks non-zero.
type Conv struct {
	Stride, Dilation [3]int // 0 means 1
	Pad              [3]Pad
	// Mask marks the zero blocks of the filter. Kernels may skip them, and the
	// gradient of the filter is zero in them. The pass find-zero-blocks sets
	// it.
	Mask BlockMask
	// TwoFour reports that the filter has the 2:4 pattern (IsTwoFour). Kernels of sparse
	// tensor cores may use it; others compute the same. The pass find-zero-blocks sets it.
	TwoFour bool
}

// Pad is the padding at both ends of an axis.
type Pad struct {
	Size     int  // elements on each side
	Periodic bool // copied from the opposite end (longitude); otherwise zeros
}

// Same is the zero padding that preserves the sizes at stride 1 and dilation 1,
// for odd filter sizes k: (k−1)/2 on every side.
func Same(k ...int) [3]Pad {
	var p [3]Pad
	for i := range p {
		if i < len(k) {
			p[i].Size = (k[i] - 1) / 2
		}
	}
	return p
}

// SameGlobal is Same for global fields: the last axis, longitude, is periodic.
func SameGlobal(k ...int) [3]Pad {
	p := Same(k...)
	p[2].Periodic = true
	return p
}

// withDefaults replaces 0 by 1 in stride and dilation.
func (a Conv) withDefaults() Conv {
	for i := range 3 {
		a.Stride[i] = max(a.Stride[i], 1)
		a.Dilation[i] = max(a.Dilation[i], 1)
	}
	return a
}

// out is the result size along axis i for n inputs and a filter of k taps.
func (a Conv) out(i, n, k int) (int, error) {
	span := a.Dilation[i]*(k-1) + 1
	have := n + 2*a.Pad[i].Size
	if have < span {
		return 0, shapeError("axis %d: filter of %d taps with dilation %d spans %d elements, the padded input has %d",
			i+2, k, a.Dilation[i], span, have)
	}
	return (have-span)/a.Stride[i] + 1, nil
}

// convShape is the shape rule of the convolution of x with w.
func convShape(x, w Shape, a Conv) (Shape, error) {
	if len(x) != 5 || len(w) != 5 {
		return nil, shapeError("x is %v and the filter %v; want [N C D H W] and [O C kD kH kW]", x, w)
	}
	if err := a.Mask.Check(w); err != nil {
		return nil, err
	}
	if x[1] != w[1] {
		return nil, shapeError("x %v has %d channels, filter %v takes %d", x, x[1], w, w[1])
	}
	out := Shape{x[0], w[0], 0, 0, 0}
	for i := range 3 {
		p := a.Pad[i]
		if a.Stride[i] < 1 || a.Dilation[i] < 1 || p.Size < 0 || p.Periodic && p.Size > x[i+2] {
			return nil, shapeError("axis %d of size %d: invalid stride %d, dilation %d or padding %d", i+2, x[i+2], a.Stride[i], a.Dilation[i], p.Size)
		}
		n, err := a.out(i, x[i+2], w[i+2])
		if err != nil {
			return nil, err
		}
		out[i+2] = n
	}
	return out, nil
}

// taps lists the input index that output o reads by tap t of axis i, at
// index[o*k+t]. It is −1 for zero padding.
func (a Conv) taps(i, n, k, out int) []int {
	index := make([]int, out*k)
	for o := range out {
		for t := range k {
			j := o*a.Stride[i] - a.Pad[i].Size + t*a.Dilation[i]
			if a.Pad[i].Periodic {
				j = ((j % n) + n) % n
			} else if j < 0 || j >= n {
				j = -1
			}
			index[o*k+t] = j
		}
	}
	return index
}

// convFLOPs counts the useful work: two operations per product. Taps that fall
// on zero padding of the level axis do not count, nor do zero blocks of the
// filter.
func convFLOPs(x, w, out Shape, a Conv) int64 {
	return partFLOPs(x, w, out, a, 0, w[1])
}

// partFLOPs is convFLOPs of n source channels from lo.
func partFLOPs(x, w, out Shape, a Conv, lo, n int) int64 {
	levels := 0
	for _, j := range a.taps(0, x[2], w[2], out[2]) {
		if j >= 0 {
			levels++
		}
	}
	return 2 * int64(out[0]) * a.Mask.countPairs(w, lo, n) * int64(levels) * int64(w[3]*w[4]) * int64(out[3]*out[4])
}

// window is the neighbourhood of a convolution with filter w.
func (a Conv) window(w Shape) Window {
	axes := []WindowAxis{{Size: 1, Stride: 1, Dilation: 1}, {Size: 1, Stride: 1, Dilation: 1}}
	for i := range 3 {
		axes = append(axes, WindowAxis{Size: w[i+2], Stride: a.Stride[i], Dilation: a.Dilation[i],
			Pad: a.Pad[i].Size, Periodic: a.Pad[i].Periodic})
	}
	return Window{Axes: axes, FullAxes: []int{1}, Padded: true}
}

// shardAttrs returns the geometry of the shard of a rank: halos replace the
// padding of partitioned axes.
func (a Conv) shardAttrs(l graph.Shard) Conv {
	for i := range a.Pad {
		if p := l.Pads[i+2]; p >= 0 {
			a.Pad[i] = Pad{Size: p}
		}
	}
	return a
}

// shardAttrs returns the attributes of the shard of a rank.
func (a ConvGrad) shardAttrs(l graph.Shard) ConvGrad { return ConvGrad{a.Conv.shardAttrs(l), l.Shape} }

// conv3D is the convolution. It and its two gradients are the partial
// derivatives of one trilinear form in x, w and dy:
//
//	L = Σ dy[n,o,p] · w[o,c,t] · x[n,c,p·stride − pad + t·dilation]
//
// So ∂L/∂dy is the convolution, ∂L/∂x is conv3d_grad_data, ∂L/∂w is
// conv3d_grad_filter. Each is differentiated by the other two.
var conv3D = Define(Spec[Conv]{
	Name:   "conv3d",
	Doc:    "Convolution (cross-correlation) of x [N C D H W] with the filter w [O C kD kH kW] → [N O D' H' W'].",
	Source: "Çiçek et al. 2016, doi:10.1007/978-3-319-46723-8_49; layout as torch.nn.Conv3d",
	Shape: func(in []Shape, a Conv) (Shape, error) {
		if len(in) != 2 {
			return nil, shapeError("%d operands, want 2", len(in))
		}
		return convShape(in[0], in[1], a)
	},
	Window:     func(in []Shape, a Conv) Window { return a.window(in[1]) },
	ShardAttrs: Conv.shardAttrs,
	Fuses:      graph.FuseConv, Class: graph.Contraction,
	Conv:   &graph.Conv{Pass: graph.ConvForward, Sources: operandAt(0)},
	Filter: &graph.Filter{Operand: 1, Source: 0, Axis: 0},
	TieChannels: func(t graph.ChannelConstraints, _ []Shape, _ Shape, _ Conv) {
		t.TieAxes(0, 0, graph.Result, 0)
		t.TieAxes(0, 1, 1, 1)
		t.TieAxes(1, 0, graph.Result, 1)
		pinWindows(t, 0, 1, graph.Result)
	},
	FLOPs: func(in []Shape, out Shape, a Conv) int64 { return convFLOPs(in[0], in[1], out, a) },
	Ref: func(c Call, a Conv) {
		clear(c.Out)
		convLoop(c.InShape[0], c.InShape[1], c.OutShape, a, func(r convRun) { r.addProducts(c.Out, c.In[0], c.In[1][r.w]) })
	},
	Cases: convCases(func(x, w, _ Shape, _ Conv) []Shape { return []Shape{x, w} }, func(a Conv, _, _ Shape) Conv { return a }),
})

// Conv3D is the convolution (cross-correlation, as in PyTorch) of x with the
// filter w:
//
//	y[n,o,d,h,w] = Σ_c Σ_t filter[o,c,t] · x[n,c, (d,h,w)·stride − pad + t·dilation]
//
// Shape: x [N C D H W], w [O C kD kH kW] → [N O D' H' W'] with D' = ⌊(D + 2·pad
// − dilation·(kD−1) − 1)/stride⌋ + 1.
// Gradient: conv3d_grad_data and conv3d_grad_filter.
// Window: filter size, stride, dilation and padding of each axis.
// Errors: ErrShape.
// Cost: 2·N·O·C·kD·kH·kW·D'·H'·W' FLOPs.
// Source: Çiçek et al. 2016, doi:10.1007/978-3-319-46723-8_49.
func Conv3D(b *Builder, x, w Value, a Conv) Value { return conv3D.add(b, a.withDefaults(), x, w) }

// ConvGrad is the geometry of a convolution with the shape To of its gradient:
// that of the input for conv3d_grad_data, of the filter for conv3d_grad_filter.
type ConvGrad struct {
	Conv
	To Shape
}

// convGrad returns the attributes of a gradient of shape to.
func convGrad(a Conv, to Shape) ConvGrad { return ConvGrad{a, to} }

// convGradData is the gradient with respect to x: every product adds w·dy to
// the input that it read.
var convGradData = Define(Spec[ConvGrad]{
	Name:   "conv3d_grad_data",
	Doc:    "Gradient of conv3d with respect to its input: filter w [O C kD kH kW], dy [N O D' H' W'] → [N C D H W].",
	Source: "the adjoint of conv3d",
	Shape: func(in []Shape, a ConvGrad) (Shape, error) {
		return gradShape(in, a, a.To, in[0], in[1])
	},
	Window: func(in []Shape, a ConvGrad) Window {
		w := a.window(in[0])
		w.Operand, w.Adjoint = 1, true
		return w
	},
	ShardAttrs: ConvGrad.shardAttrs,
	Fuses:      graph.FuseConvData, Class: graph.Contraction,
	Conv:   &graph.Conv{Pass: graph.ConvData, Sources: operandAt(1)},
	Filter: &graph.Filter{Operand: 0, Source: 1, Axis: 1}, // in a network it is a transposed convolution
	TieChannels: func(t graph.ChannelConstraints, _ []Shape, _ Shape, _ ConvGrad) {
		t.TieAxes(1, 0, graph.Result, 0)
		t.TieAxes(1, 1, 0, 0)
		t.TieAxes(0, 1, graph.Result, 1)
		pinWindows(t, 1, 0, graph.Result)
	},
	PrunedAttrs: func(a ConvGrad, l graph.PrunedShape) ConvGrad {
		a.To = l.Shape
		return a
	},
	FLOPs: func(in []Shape, out Shape, a ConvGrad) int64 { return convFLOPs(out, in[0], in[1], a.Conv) },
	Ref: func(c Call, a ConvGrad) {
		clear(c.Out)
		convLoop(c.OutShape, c.InShape[0], c.InShape[1], a.Conv, func(r convRun) { r.addAdjoint(c.Out, c.In[1], c.In[0][r.w]) })
	},
	Cases: convCases(func(_, w, y Shape, _ Conv) []Shape { return []Shape{w, y} },
		func(a Conv, x, _ Shape) ConvGrad { return convGrad(a, x) }),
})

// convGradFilter is the gradient with respect to w: every product adds x·dy to
// the filter value that it used.
var convGradFilter = Define(Spec[ConvGrad]{
	Name:   "conv3d_grad_filter",
	Doc:    "Gradient of conv3d with respect to its filter: x [N C D H W], dy [N O D' H' W'] → [O C kD kH kW].",
	Source: "the adjoint of conv3d",
	Shape: func(in []Shape, a ConvGrad) (Shape, error) {
		return gradShape(in, a, in[0], a.To, in[1])
	},
	Window: func(in []Shape, a ConvGrad) Window {
		w := a.window(a.To)
		w.CorrelateWith, w.FullAxes, w.Additive = 1, []int{0, 2, 3, 4}, true
		return w
	},
	ShardAttrs: ConvGrad.shardAttrs,
	Fuses:      graph.FuseConvFilter, Class: graph.Contraction,
	Conv:  &graph.Conv{Pass: graph.ConvFilter, Sources: operandAt(0)},
	FLOPs: func(in []Shape, out Shape, a ConvGrad) int64 { return convFLOPs(in[0], out, in[1], a.Conv) },
	Ref: func(c Call, a ConvGrad) {
		clear(c.Out)
		convLoop(c.InShape[0], c.OutShape, c.InShape[1], a.Conv, func(r convRun) { c.Out[r.w] = r.dot(c.Out[r.w], c.In[0], c.In[1]) })
	},
	Cases: convCases(func(x, _, y Shape, _ Conv) []Shape { return []Shape{x, y} },
		func(a Conv, _, w Shape) ConvGrad { return convGrad(a, w) }),
})

// Conv3DGradFilter is the gradient of Conv3D(x, w, a) with respect to a filter w of the given shape: the correlation of dy
// with the patches that the filter reads.
//
// Shape: x [N C D H W], dy [N O D' H' W'] → w [O C kD kH kW].
// Errors: ErrShape.
func Conv3DGradFilter(b *Builder, x, dy Value, a Conv, w Shape) Value {
	return convGradFilter.add(b, convGrad(a.withDefaults(), w), x, dy)
}

// operandAt returns the list of the single operand i, which a convolution reads
// in windows.
func operandAt(i int) func(int) []int { return func(int) []int { return []int{i} } }

// gradShape checks that the convolution of x with w has the shape of dy, and
// returns the shape of the gradient.
func gradShape(in []Shape, a ConvGrad, x, w, dy Shape) (Shape, error) {
	if len(in) != 2 {
		return nil, shapeError("%d operands, want 2", len(in))
	}
	y, err := convShape(x, w, a.Conv)
	if err != nil {
		return nil, err
	}
	if !y.Equal(dy) {
		return nil, shapeError("dy is %v, the convolution of %v with %v gives %v", dy, x, w, y)
	}
	return a.To.Clone(), nil
}

// Connects the gradients: each of the three is differentiated by the other two.
func init() {
	data := func(b *Builder, w, dy Value, a Conv, x Shape) Value {
		return convGradData.add(b, convGrad(a, x), w, dy)
	}
	conv3D.SetGrad(func(b *Builder, in []Value, _, dy Value, a Conv) []Value {
		return []Value{data(b, in[1], dy, a, in[0].Shape()), Conv3DGradFilter(b, in[0], dy, a, in[1].Shape())}
	})
	convGradData.SetGrad(func(b *Builder, in []Value, _, dx Value, a ConvGrad) []Value {
		return []Value{Conv3DGradFilter(b, dx, in[1], a.Conv, in[0].Shape()), conv3D.add(b, a.Conv, dx, in[0])}
	})
	convGradFilter.SetGrad(func(b *Builder, in []Value, _, dw Value, a ConvGrad) []Value {
		return []Value{data(b, dw, in[1], a.Conv, in[0].Shape()), conv3D.add(b, a.Conv, in[0], dw)}
	})
}

// convRun is n products of one filter value, at w: inputs at x, x+step, … with
// outputs at y, y+1, …
type convRun struct{ x, w, y, n, step int }

// convLoop visits every product with a non-zero filter block once, in runs
// along the last axis. For every element of input, filter and output, the
// products come in row-major order of the other two. This order fixes the
// rounding of the reference.
func convLoop(xs, ws, ys Shape, a Conv, visit func(r convRun)) {
	var taps [3][]int
	for i := range 3 {
		taps[i] = a.taps(i, xs[i+2], ws[i+2], ys[i+2])
	}
	rows := a.rows(taps[2], ws[4], ys[4])
	for n := range ys[0] {
		for o := range ys[1] {
			for d := range ys[2] {
				for h := range ys[3] {
					y := (((n*ys[1]+o)*ys[2]+d)*ys[3] + h) * ys[4]
					for c := range xs[1] {
						if !a.Mask.Keeps(o, c, xs[1]) {
							continue
						}
						xc := (n*xs[1] + c) * xs[2]
						w := (o*ws[1] + c) * ws[2] * ws[3] * ws[4]
						for _, jd := range taps[0][d*ws[2] : (d+1)*ws[2]] {
							for _, jh := range taps[1][h*ws[3] : (h+1)*ws[3]] {
								if jd >= 0 && jh >= 0 {
									for _, r := range rows {
										visit(convRun{((xc+jd)*xs[3]+jh)*xs[4] + r.x, w + r.w, y + r.y, r.n, r.step})
									}
								}
								w += ws[4]
							}
						}
					}
				}
			}
		}
	}
}

// rows splits the last axis into runs: for every tap, the consecutive outputs
// whose inputs are equally spaced.
func (a Conv) rows(index []int, k, out int) []convRun {
	var rs []convRun
	for t := range k {
		for o := 0; o < out; {
			if index[o*k+t] < 0 {
				o++
				continue
			}
			r := convRun{x: index[o*k+t], w: t, y: o, step: a.Stride[2]}
			for ; o < out && index[o*k+t] == r.x+r.n*r.step; o++ {
				r.n++
			}
			rs = append(rs, r)
		}
	}
	return rs
}

// addProducts computes y += x·v along a run.
func (r convRun) addProducts(y, x []float64, v float64) {
	if r.step == 1 {
		x = x[r.x : r.x+r.n]
		for i, u := range x {
			y[r.y+i] += u * v
		}
		return
	}
	for i := range r.n {
		y[r.y+i] += x[r.x+i*r.step] * v
	}
}

// addAdjoint computes x += y·v along a run.
func (r convRun) addAdjoint(x, y []float64, v float64) {
	for i, u := range y[r.y : r.y+r.n] {
		x[r.x+i*r.step] += u * v
	}
}

// dot returns sum plus the products x·y along a run.
func (r convRun) dot(sum float64, x, y []float64) float64 {
	for i, u := range y[r.y : r.y+r.n] {
		sum += u * x[r.x+i*r.step]
	}
	return sum
}

// convCases returns the test geometries for the convolution and its gradients.
func convCases[A any](in func(x, w, y Shape, a Conv) []Shape, attrs func(a Conv, x, w Shape) A) []Case[A] {
	var out []Case[A]
	for _, c := range []struct {
		name string
		x, w Shape
		a    Conv
	}{
		{"3x3x3 zero", Shape{2, 3, 4, 6, 7}, Shape{5, 3, 3, 3, 3}, Conv{Pad: Same(3, 3, 3)}},
		{"3x3x3 depth 2, periodic", Shape{2, 3, 2, 6, 8}, Shape{4, 3, 3, 3, 3}, Conv{Pad: SameGlobal(3, 3, 3)}},
		{"1x1x1", Shape{2, 4, 3, 5, 6}, Shape{3, 4, 1, 1, 1}, Conv{}},
		{"wide, periodic", Shape{1, 17, 2, 16, 32}, Shape{18, 17, 3, 3, 3}, Conv{Pad: SameGlobal(3, 3, 3)}},
		{"one result", Shape{2, 16, 2, 8, 12}, Shape{1, 16, 3, 3, 3}, Conv{Pad: Same(3, 3, 3)}},
		{"1x5x7 valid", Shape{2, 2, 3, 7, 9}, Shape{3, 2, 1, 5, 7}, Conv{}},
		{"stride 1 2 3", Shape{1, 2, 5, 6, 7}, Shape{3, 2, 3, 3, 3}, Conv{Stride: [3]int{1, 2, 3}, Pad: Same(3, 3, 3)}},
		{"dilation 1 2 3, periodic", Shape{1, 2, 4, 9, 11}, Shape{3, 2, 3, 3, 3},
			Conv{Dilation: [3]int{1, 2, 3}, Pad: [3]Pad{{1, false}, {2, false}, {3, true}}}},
		{"blocks", Shape{1, 34, 2, 7, 8}, Shape{40, 34, 3, 3, 3}, Conv{Pad: Same(3, 3, 3), Mask: "010" + "101" + "000"}},
		{"blocks, periodic, three levels", Shape{1, 29, 3, 5, 6}, Shape{17, 29, 3, 3, 3}, Conv{Pad: SameGlobal(3, 3, 3), Mask: "01" + "10"}},
		{"all periodic, stride 2", Shape{2, 1, 4, 6, 8}, Shape{2, 1, 2, 3, 4},
			Conv{Stride: [3]int{2, 2, 2}, Pad: [3]Pad{{1, true}, {1, true}, {2, true}}}},
	} {
		a := c.a.withDefaults()
		y, err := convShape(c.x, c.w, a)
		if err != nil {
			panic("conv3d case " + c.name + ": " + err.Error())
		}
		k := Case[A]{Name: c.name, In: in(c.x, c.w, y, a), A: attrs(a, c.x, c.w)}
		if a.Mask != "" {
			k.Make = func(operands [][]float64) {
				for i, s := range k.In { // the filter, where it is an operand
					if len(s) == 5 && s[0] == c.w[0] && s[2:].Equal(c.w[2:]) {
						clearBlocks(a.Mask, operands[i], s)
					}
				}
			}
		}
		out = append(out, k)
	}
	return out
}
