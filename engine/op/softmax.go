package op

import "math"

// Groups are runs of Size consecutive elements along an axis.
type Groups struct{ Axis, Size int }

// dims returns the number of groups times outer elements, and the number of
// elements after the axis.
func (a Groups) dims(x Shape) (outer, inner int) {
	inner = x[a.Axis+1:].Size()
	return x.Size() / a.Size / inner, inner
}

// check is the shape rule: all operands of one shape, whose axis the groups
// fill.
func (a Groups) check(in []Shape, operands int) (Shape, error) {
	if len(in) != operands || a.Axis < 0 || a.Axis >= len(in[0]) || a.Size < 1 || in[0][a.Axis]%a.Size != 0 {
		return nil, shapeError("operands %v, want %d with groups of %d along axis %d", in, operands, a.Size, a.Axis)
	}
	if !in[operands-1].Equal(in[0]) {
		return nil, shapeError("operands %v differ in shape", in)
	}
	return in[0].Clone(), nil
}

// each visits the groups: the offset of the first element, and the distance
// between elements.
func (a Groups) each(x Shape, visit func(first, step int)) {
	outer, inner := a.dims(x)
	for o := range outer {
		for i := range inner {
			visit(o*a.Size*inner+i, inner)
		}
	}
}

// softmaxCases are the sizes with which softmax is tested.
func softmaxCases(operands int) []Case[Groups] {
	var out []Case[Groups]
	for _, c := range []Case[Groups]{
		{Name: "channels in groups", In: []Shape{{2, 12, 2, 3, 7}}, A: Groups{1, 4}},
		{Name: "all channels", In: []Shape{{3, 5, 1, 1, 1}}, A: Groups{1, 5}, Low: -30, High: 30},
		{Name: "last", In: []Shape{{4, 21}}, A: Groups{1, 7}},
		{Name: "one", In: []Shape{{2, 3}}, A: Groups{1, 1}},
	} {
		for len(c.In) < operands {
			c.In = append(c.In, c.In[0])
		}
		out = append(out, c)
	}
	return out
}

// softmax subtracts the maximum of a group first, so that exp does not
// overflow.
var softmax = Define(Spec[Groups]{
	Name:   "softmax",
	Doc:    "exp(x)/Σ exp(x) over groups of consecutive elements along an axis; the maximum of a group is subtracted first.",
	Source: "Vaswani et al. 2017, arXiv:1706.03762; torch.softmax",
	Shape:  func(in []Shape, a Groups) (Shape, error) { return a.check(in, 1) },
	Grad: func(b *Builder, _ []Value, out, dy Value, a Groups) []Value {
		return []Value{softmaxGrad.add(b, a, out, dy)}
	},
	Window:  func(_ []Shape, a Groups) Window { return Window{FullAxes: []int{a.Axis}} },
	FLOPs:   func(_ []Shape, out Shape, _ Groups) int64 { return 20 * int64(out.Size()) },
	InPlace: inPlace[Groups](0),
	Ref: func(c Call, a Groups) {
		a.each(c.OutShape, func(first, step int) {
			top, sum := math.Inf(-1), 0.0
			for k := range a.Size {
				top = math.Max(top, c.In[0][first+k*step])
			}
			for k := range a.Size {
				i := first + k*step
				c.Out[i] = math.Exp(c.In[0][i] - top)
				sum += c.Out[i]
			}
			for k := range a.Size {
				c.Out[first+k*step] /= sum
			}
		})
	},
	Cases: softmaxCases(1),
})

// softmaxGrad needs only the result of softmax, not its operand.
var softmaxGrad = Define(Spec[Groups]{
	Name:    "softmax_grad",
	Doc:     "Gradient of softmax from its result y and dy: y·(dy − Σ y·dy) over each group.",
	Source:  "derivative of softmax",
	NoGrad:  noSecondOrder,
	Shape:   func(in []Shape, a Groups) (Shape, error) { return a.check(in, 2) },
	Window:  func(_ []Shape, a Groups) Window { return Window{FullAxes: []int{a.Axis}} },
	FLOPs:   func(_ []Shape, out Shape, _ Groups) int64 { return 5 * int64(out.Size()) },
	InPlace: inPlace[Groups](0, 1),
	Ref: func(c Call, a Groups) {
		a.each(c.OutShape, func(first, step int) {
			var sum float64
			for k := range a.Size {
				sum += c.In[0][first+k*step] * c.In[1][first+k*step]
			}
			for k := range a.Size {
				i := first + k*step
				c.Out[i] = c.In[0][i] * (c.In[1][i] - sum)
			}
		})
	},
	Cases: softmaxCases(2),
})

// Softmax is exp(x)/Σ exp(x) over each group of size consecutive elements along
// an axis. The maximum of a group is subtracted first, so that nothing
// overflows.
//
// Shape: that of x.
// Missing: NaN makes its whole group NaN.
// Gradient: y·(dy − Σ y·dy).
// Errors: ErrShape unless groups fill the axis.
// Source: Vaswani et al. 2017, arXiv:1706.03762; torch.softmax.
func Softmax(b *Builder, x Value, axis, size int) Value { return softmax.add(b, Groups{axis, size}, x) }
