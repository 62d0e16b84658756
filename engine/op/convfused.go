package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Convolutions and their gradients, fused with adjacent operations. The pass fuse
// inserts them; networks do not use them. The source may consist of parts that
// are concatenated along the channels. Kernels read the parts where they lie, so
// the concatenated field is never written to memory.

// FusedConv is a convolution with bias and, optionally, ReLU in one kernel.
type FusedConv struct {
	Conv
	ReLU bool
}

// joinedShape is the shape of the parts concatenated along the channels.
func joinedShape(parts []Shape) (Shape, error) { return concat.Shape(parts, AlongAxis{1}) }

// joinParts concatenates the first n operands along the channels, for reference
// kernels.
func joinParts(c Call, n int) ([]float64, Shape) {
	s, err := joinedShape(c.InShape[:n])
	if err != nil || n == 1 {
		return c.In[0], c.InShape[0]
	}
	x := make([]float64, s.Size())
	concat.Ref(Call{In: c.In[:n], InShape: c.InShape[:n], Out: x, OutShape: s}, AlongAxis{1})
	return x, s
}

// convFused is max(conv3d(x, w) + bias, 0), or without the maximum, over parts
// of x. One sweep over the result replaces three.
var convFused = Define(Spec[FusedConv]{
	Name: "conv3d_fused",
	Doc: "max(conv3d(x, w) + bias, 0), or without the maximum: one or more parts of x [N C D H W], concatenated along the channels, " +
		"w [O C kD kH kW], bias [O].",
	Source: "concat, conv3d, bias and relu; inserted by the pass fuse",
	NoGrad: "inserted by the pass fuse after gradients were added",
	Shape: func(in []Shape, a FusedConv) (Shape, error) {
		n := len(in) - 2
		if n < 1 || len(in[n]) != 5 || len(in[n+1]) != 1 || in[n+1][0] != in[n][0] {
			return nil, shapeError("operands %v, want parts of x, a filter and a bias per result channel", in)
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

// inParts splits the channels of a shape into two parts, for tests. A single
// channel stays whole.
func inParts(x Shape) []Shape {
	if x[1] < 2 {
		return []Shape{x}
	}
	a, b := x.Clone(), x.Clone()
	a[1] = (x[1] + 1) / 2
	b[1] -= a[1]
	return []Shape{a, b}
}

// ConvFused appends max(conv3d(x, w) + bias, 0), or without the maximum if relu
// is false. x are parts that are concatenated along the channels. Only the pass
// fuse calls it; networks use Concat, Conv3D, Bias and ReLU.
//
// Shape: x parts [N Cᵢ D H W], w [O ΣCᵢ kD kH kW], bias [O] → [N O D' H' W'].
func ConvFused(b *Builder, x []Value, w, bias Value, a Conv, relu bool) Value {
	return convFused.add(b, FusedConv{a.withDefaults(), relu}, append(x[:len(x):len(x)], w, bias)...)
}

// FusedConvGrad is a fused gradient with respect to the data, for the input
// channels Lo … Lo + To[1]:
//
//	dx = gate(conv3d_grad_data(w, dy)[channels] + addend)
//
// The gate keeps dx where the result of the preceding ReLU is positive: it is
// the gradient of that ReLU.
type FusedConvGrad struct {
	ConvGrad
	Lo                 int  // first input channel
	HasAddend, HasGate bool // whether an addend and a gate follow dy, in this order
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

// filter is the shape of the part of the filter w that the channels use.
func (a FusedConvGrad) filter(w Shape) Shape {
	s := w.Clone()
	s[1] = a.To[1]
	return s
}

// convFusedGradData is the fused gradient with respect to the data; see
// FusedConvGrad.
var convFusedGradData = Define(Spec[FusedConvGrad]{
	Name: "conv3d_fused_grad_data",
	Doc: "Gradient of conv3d with respect to some channels of its input: filter w [O C kD kH kW], dy [N O D' H' W'], " +
		"then optionally an addend and a gate, which keeps the sum where it is positive → [N C' D H W].",
	Source: "slice, conv3d_grad_data, add and relu_grad; inserted by the pass fuse",
	NoGrad: noSecondOrder,
	Shape: func(in []Shape, a FusedConvGrad) (Shape, error) {
		if len(in) != a.operands() || len(in[0]) != 5 || len(a.To) != 5 || a.Lo < 0 || a.Lo+a.To[1] > in[0][1] {
			return nil, shapeError("operands %v do not fit %[3]v, channels from %[2]d", in, a.Lo, a.To)
		}
		for _, s := range in[2:] {
			if !s.Equal(a.To) {
				return nil, shapeError("addend or gate is %v, want %v", s, a.To)
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
		// The loop runs over a part of the filter; the offset in the whole
		// filter follows from the row.
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

// ConvFusedGradData appends the fused gradient with respect to the data. plus
// and gate are the zero Value where a does not use them. Only the pass fuse
// calls it.
//
// Shape: w [O C kD kH kW], dy [N O D' H' W'], plus and gate [N C' D H W] → [N
// C' D H W].
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

// operandsBefore returns a function that lists the operands before the last
// ones, of which there are behind.
func operandsBefore(last int) func(int) []int {
	return func(operands int) (parts []int) {
		for i := range operands - last {
			parts = append(parts, i)
		}
		return parts
	}
}

// convFusedGradFilter is the gradient with respect to the filter of a
// convolution of concatenated parts.
var convFusedGradFilter = Define(Spec[ConvGrad]{
	Name:   "conv3d_fused_grad_filter",
	Doc:    "Gradient of conv3d with respect to its filter: parts of x [N C D H W], concatenated along the channels, then dy [N O D' H' W'] → [O C kD kH kW].",
	Source: "concat and conv3d_grad_filter; inserted by the pass fuse",
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

// ConvFusedGradFilter appends the gradient with respect to the filter of a
// convolution whose source is the parts x. Only the pass fuse calls it.
func ConvFusedGradFilter(b *Builder, x []Value, dy Value, a ConvGrad) Value {
	return convFusedGradFilter.add(b, a, append(x[:len(x):len(x)], dy)...)
}
