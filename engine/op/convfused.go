package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// The convolution and its gradients together with what surrounds them: made by
// the pass fuse, never by networks. The source may be parts that stand one
// behind the other along the channels and need not be joined in memory.

// FusedConv is a convolution with bias and, if asked, ReLU in one kernel.
type FusedConv struct {
	Conv
	ReLU bool
}

// joinedShape is the shape of parts one behind the other along the channels.
func joinedShape(parts []Shape) (Shape, error) { return concat.Shape(parts, AlongAxis{1}) }

// joinParts is the value of parts one behind the other along the channels.
func joinParts(c Call, n int) ([]float64, Shape) {
	s, err := joinedShape(c.InShape[:n])
	if err != nil || n == 1 {
		return c.In[0], c.InShape[0]
	}
	x := make([]float64, s.Size())
	concat.Ref(Call{In: c.In[:n], InShape: c.InShape[:n], Out: x, OutShape: s}, AlongAxis{1})
	return x, s
}

var convFused = Define(Spec[FusedConv]{
	Name: "conv3d_fused",
	Doc: "max(conv3d(x, w) + bias, 0), or without the maximum: one or more parts of x [N C D H W], joined along the channels, " +
		"w [O C kD kH kW], bias [O].",
	Source: "concat, conv3d, bias and relu in one; made by the pass fuse",
	NoGrad: "the pass fuse makes it after gradients have been added",
	Shape: func(in []Shape, a FusedConv) (Shape, error) {
		n := len(in) - 2
		if n < 1 || len(in[n]) != 5 || len(in[n+1]) != 1 || in[n+1][0] != in[n][0] {
			return nil, shapeError("operands %v, want parts of x, filter and one bias per result channel", in)
		}
		x, err := joinedShape(in[:n])
		if err != nil {
			return nil, err
		}
		return convShape(x, in[n], a.Conv)
	},
	Window:      func(in []Shape, a FusedConv) Window { return a.window(in[len(in)-2]) },
	Class:       graph.Contraction,
	Conv:        &graph.Conv{Pass: graph.ConvForward, Sources: operandsBefore(2)},
	Quantisable: true,
	FLOPs: func(in []Shape, out Shape, a FusedConv) int64 {
		x, err := joinedShape(in[:len(in)-2])
		if err != nil {
			return 0
		}
		return convFLOPs(x, in[len(in)-2], out, a.Conv) + 2*int64(out.Size())
	},
	Ref: func(c Call, a FusedConv) {
		parts := len(c.In) - 2
		x, xs := joinParts(c, parts)
		w, bias := c.In[parts], c.In[parts+1]
		o, s := c.OutShape[1], c.OutShape[2:].Size()
		for i := range c.Out {
			c.Out[i] = bias[i/s%o]
		}
		convLoop(xs, c.InShape[parts], c.OutShape, a.Conv, func(r convRun) { r.addProducts(c.Out, x, w[r.w]) })
		if a.ReLU {
			for i, v := range c.Out {
				c.Out[i] = max(v, 0)
			}
		}
	},
	Cases: append(
		convCases(func(x, w, _ Shape, _ Conv) []Shape { return []Shape{x, w, {w[0]}} }, func(a Conv, _, _ Shape) FusedConv { return FusedConv{a, true} }),
		append(
			convCases(func(x, w, _ Shape, _ Conv) []Shape { return []Shape{x, w, {w[0]}} }, func(a Conv, _, _ Shape) FusedConv { return FusedConv{a, false} }),
			convCases(func(x, w, _ Shape, _ Conv) []Shape { return append(inParts(x), w, Shape{w[0]}) }, func(a Conv, _, _ Shape) FusedConv { return FusedConv{a, true} })...)...),
})

// inParts cuts the channels of x into two parts if there are two, for tests.
func inParts(x Shape) []Shape {
	if x[1] < 2 {
		return []Shape{x}
	}
	a, b := x.Clone(), x.Clone()
	a[1] = (x[1] + 1) / 2
	b[1] -= a[1]
	return []Shape{a, b}
}

// ConvFused is max(conv3d(x, w) + bias, 0), without the maximum if relu is
// false; x are parts that are joined along the channels. The pass fuse writes
// it; networks use Concat, Conv3D, Bias and ReLU.
func ConvFused(b *Builder, x []Value, w, bias Value, a Conv, relu bool) Value {
	return convFused.add(b, FusedConv{a.withDefaults(), relu}, append(x[:len(x):len(x)], w, bias)...)
}

// FusedConvGrad is a gradient of the data with respect to the channels
// Lo … Lo + To[1] of the input, to which another value is added (Plus), and
// which is kept only where a third one is positive (Gate: the gradient of the
// ReLU that made the input).
type FusedConvGrad struct {
	ConvGrad
	Lo                 int
	HasAddend, HasGate bool
}

// operands is the number of operands.
func (a FusedConvGrad) operands() int {
	n := 2
	if a.HasAddend {
		n++
	}
	if a.HasGate {
		n++
	}
	return n
}

// filter is the shape of the part of the filter w that takes part.
func (a FusedConvGrad) filter(w Shape) Shape {
	s := w.Clone()
	s[1] = a.To[1]
	return s
}

var convFusedGradData = Define(Spec[FusedConvGrad]{
	Name: "conv3d_fused_grad_data",
	Doc: "Gradient of conv3d with respect to some channels of its input: filter w [O C kD kH kW], dy [N O D' H' W'], " +
		"then a value to add and one that gates the sum by its sign, if there are any → [N C' D H W].",
	Source: "slice, conv3d_grad_data, add and relu_grad in one; made by the pass fuse",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a FusedConvGrad) (Shape, error) {
		if len(in) != a.operands() || len(in[0]) != 5 || len(a.To) != 5 || a.Lo < 0 || a.Lo+a.To[1] > in[0][1] {
			return nil, shapeError("operands %v for channels from %d on of %v", in, a.Lo, a.To)
		}
		for _, s := range in[2:] {
			if !s.Equal(a.To) {
				return nil, shapeError("added or gated by %v, want %v", s, a.To)
			}
		}
		part := a.ConvGrad
		part.Mask = "" // of the whole filter
		if err := a.Mask.Check(in[0]); err != nil {
			return nil, err
		}
		return gradShape(in[:2], part, a.To, a.filter(in[0]), in[1])
	},
	Class: graph.Contraction,
	Conv:  &graph.Conv{Pass: graph.ConvData, Sources: operandAt(1)},
	Window: func(in []Shape, a FusedConvGrad) Window {
		w := a.window(in[0])
		w.Operand, w.Adjoint = 1, true
		return w
	},
	FLOPs: func(in []Shape, out Shape, a FusedConvGrad) int64 {
		return partFLOPs(out, in[0], in[1], a.Conv, a.Lo, a.To[1]) + int64(len(in)-2)*int64(out.Size())
	},
	InPlace: func(i int, a FusedConvGrad) bool { return i == 2 && a.HasAddend },
	Ref: func(c Call, a FusedConvGrad) {
		if a.HasAddend {
			copy(c.Out, c.In[2])
		} else {
			clear(c.Out)
		}
		// The loop runs over the part of the filter; its place in the whole
		// follows from the number of its row.
		part, whole := a.filter(c.InShape[0]), c.InShape[0]
		row, rows := part[1:].Size(), whole[1:].Size()
		taps := whole[2:].Size()
		skip := a.Lo * taps
		all := a.Conv
		all.Mask = ""
		convLoop(c.OutShape, part, c.InShape[1], all, func(r convRun) {
			if !a.Mask.Keeps(r.w/row, r.w%row/taps+a.Lo, whole[1]) {
				return
			}
			r.addAdjoint(c.Out, c.In[1], c.In[0][r.w/row*rows+r.w%row+skip])
		})
		if a.HasGate {
			gate := c.In[len(c.In)-1]
			for i := range c.Out {
				if !(gate[i] > 0) {
					c.Out[i] = 0
				}
			}
		}
	},
	Cases: func() []Case[FusedConvGrad] {
		var cs []Case[FusedConvGrad]
		for i := range 4 {
			plus, gate := i&1 > 0, i&2 > 0
			cs = append(cs, convCases(func(x, w, y Shape, _ Conv) []Shape {
				whole := w.Clone()
				whole[1] += 3
				in := []Shape{whole, y}
				for range (FusedConvGrad{HasAddend: plus, HasGate: gate}).operands() - 2 {
					in = append(in, x)
				}
				return in
			}, func(a Conv, x, _ Shape) FusedConvGrad { return FusedConvGrad{convGrad(a, x), 2, plus, gate} })...)
		}
		return cs
	}(),
})

// ConvFusedGradData is the gradient of the data in the form of a; plus and gate
// are zero Values where a does not want them.
func ConvFusedGradData(b *Builder, w, dy, plus, gate Value, a FusedConvGrad) Value {
	in := []Value{w, dy}
	if a.HasAddend {
		in = append(in, plus)
	}
	if a.HasGate {
		in = append(in, gate)
	}
	return convFusedGradData.add(b, a, in...)
}

// operandsBefore are the operands of a convolution but those behind its parts.
func operandsBefore(behind int) func(int) []int {
	return func(operands int) (parts []int) {
		for i := range operands - behind {
			parts = append(parts, i)
		}
		return parts
	}
}

var convFusedGradFilter = Define(Spec[ConvGrad]{
	Name:   "conv3d_fused_grad_filter",
	Doc:    "Gradient of conv3d with respect to its filter: parts of x [N C D H W], joined along the channels, then dy [N O D' H' W'] → [O C kD kH kW].",
	Source: "concat and conv3d_grad_filter in one; made by the pass fuse",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a ConvGrad) (Shape, error) {
		if len(in) < 2 {
			return nil, shapeError("%d operands, want parts of x and dy", len(in))
		}
		x, err := joinedShape(in[:len(in)-1])
		if err != nil {
			return nil, err
		}
		return gradShape([]Shape{x, in[len(in)-1]}, a, x, a.To, in[len(in)-1])
	},
	Window: func([]Shape, ConvGrad) Window { return Window{FullAxes: []int{0, 2, 3, 4}} },
	Class:  graph.Contraction,
	Conv:   &graph.Conv{Pass: graph.ConvFilter, Sources: operandsBefore(1)},
	FLOPs: func(in []Shape, out Shape, a ConvGrad) int64 {
		x, err := joinedShape(in[:len(in)-1])
		if err != nil {
			return 0
		}
		return convFLOPs(x, out, in[len(in)-1], a.Conv)
	},
	Ref: func(c Call, a ConvGrad) {
		parts := len(c.In) - 1
		x, xs := joinParts(c, parts)
		dy := c.In[parts]
		clear(c.Out)
		convLoop(xs, c.OutShape, c.InShape[parts], a.Conv, func(r convRun) { c.Out[r.w] = r.dot(c.Out[r.w], x, dy) })
	},
	Cases: convCases(func(x, _, y Shape, _ Conv) []Shape { return append(inParts(x), y) },
		func(a Conv, _, w Shape) ConvGrad { return convGrad(a, w) }),
})

// ConvFusedGradFilter is the gradient of the filter of a convolution whose
// source is the parts x.
func ConvFusedGradFilter(b *Builder, x []Value, dy Value, a ConvGrad) Value {
	return convFusedGradFilter.add(b, a, append(x[:len(x):len(x)], dy)...)
}
