package op

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Axes lists the axes of a reduction. With Keep they remain with size 1.
// Otherwise all axes are reduced and the result is a scalar.
type Axes struct {
	Axes []int
	Keep bool
}

// Reduction is the plan of a sum: the operand as alternating dense groups of
// kept and summed axes.
type Reduction struct {
	Dims   []int  // merged axes, outermost first
	Summed []bool // whether each of them is summed
}

// PlanSum merges adjacent axes of s that are both kept or both summed.
func PlanSum(s Shape, a Axes) Reduction {
	var r Reduction
	for i, d := range s {
		if d == 1 {
			continue
		}
		summed := !a.Keep || slices.Contains(a.Axes, i)
		if n := len(r.Dims); n > 0 && r.Summed[n-1] == summed {
			r.Dims[n-1] *= d
			continue
		}
		r.Dims, r.Summed = append(r.Dims, d), append(r.Summed, summed)
	}
	return r
}

// Sums adds x into acc, which it clears first. Elements are added in their
// order in x, with float64 sums. This order fixes the rounding of all backends
// that use it.
func Sums[T Elem](r Reduction, x []T, acc []float64) {
	clear(acc)
	var walk func(axis, at, to int)
	walk = func(axis, at, to int) {
		if axis == len(r.Dims) {
			acc[to] += float64(x[at])
			return
		}
		d, inner, kept := r.Dims[axis], 1, 1
		for i := axis + 1; i < len(r.Dims); i++ {
			inner *= r.Dims[i]
			if !r.Summed[i] {
				kept *= r.Dims[i]
			}
		}
		switch {
		case inner == 1 && r.Summed[axis]:
			s := acc[to]
			for _, v := range x[at : at+d] {
				s += float64(v)
			}
			acc[to] = s
		case inner == 1:
			row := acc[to : to+d]
			for i, v := range x[at : at+d] {
				row[i] += float64(v)
			}
		case r.Summed[axis]:
			for i := range d {
				walk(axis+1, at+i*inner, to)
			}
		default:
			for i := range d {
				walk(axis+1, at+i*inner, to+i*kept)
			}
		}
	}
	walk(0, 0, 0)
}

// sum adds up axes. Its gradient is a broadcast, whose gradient is a sum.
var sum = Define(Spec[Axes]{
	Name:   "sum",
	Doc:    "Sum over axes, which remain with size 1, or over all axes to a scalar.",
	Source: "elementary",
	Shape: func(in []Shape, a Axes) (Shape, error) {
		if len(in) != 1 {
			return nil, shapeError("%d operands, want 1", len(in))
		}
		if !a.Keep {
			return Shape{}, nil
		}
		out := in[0].Clone()
		for _, i := range a.Axes {
			if i < 0 || i >= len(out) {
				return nil, shapeError("axis %d is out of range for %v", i, in[0])
			}
			out[i] = 1
		}
		return out, nil
	},
	Window: func(in []Shape, a Axes) Window {
		if !a.Keep {
			return Window{FullAxes: allBut(in[0], -1), Additive: true}
		}
		return Window{FullAxes: a.Axes, Additive: true}
	},
	TieChannels: func(t graph.ChannelConstraints, in []Shape, _ Shape, a Axes) {
		for axis := range in[0] {
			if !a.Keep || slices.Contains(a.Axes, axis) {
				t.PinAxes(0, t.Description()+" sums over it", axis)
			} else {
				t.TieAxes(0, axis, graph.Result, axis)
			}
		}
	},
	FLOPs: func(in []Shape, _ Shape, _ Axes) int64 { return int64(in[0].Size()) },
	Ref:   func(c Call, a Axes) { Sums(PlanSum(c.InShape[0], a), c.In[0], c.Out) },
	Cases: []Case[Axes]{
		{Name: "all", In: []Shape{{2, 3, 5, 6, 7}}},
		{Name: "channels kept", In: []Shape{{2, 3, 5, 6, 7}}, A: Axes{Axes: []int{0, 2, 3, 4}, Keep: true}},
		{Name: "horizontal", In: []Shape{{2, 3, 5, 6, 7}}, A: Axes{Axes: []int{3, 4}, Keep: true}},
		{Name: "every other", In: []Shape{{2, 3, 5, 6, 7}}, A: Axes{Axes: []int{1, 3}, Keep: true}},
		{Name: "first", In: []Shape{{4, 3}}, A: Axes{Axes: []int{0}, Keep: true}},
	},
})

// identity is the scalar formula of broadcast.
var identity = graph.Scalar{
	F1: func(x, _ float64) float64 { return x },
	P:  func(any) float64 { return 0 },
}

// broadcast repeats its operand. As an elementwise operation it can be fused
// into chains.
var broadcast = Define(Spec[ToShape]{
	Name:   "broadcast",
	Doc:    "x repeated along its axes of size 1, or a scalar repeated to a shape.",
	Source: "elementary",
	Shape: func(in []Shape, a ToShape) (Shape, error) {
		if len(in) != 1 || len(in[0]) != 0 && len(in[0]) != len(a.Shape) {
			return nil, shapeError("cannot broadcast %v to %v", in, a.Shape)
		}
		for i, d := range in[0] {
			if d != 1 && d != a.Shape[i] {
				return nil, shapeError("cannot broadcast %v to %v", in[0], a.Shape)
			}
		}
		return a.Shape.Clone(), nil
	},
	Split:       graph.SplitBroadcast,
	ShardAttrs:  func(_ ToShape, l graph.Shard) ToShape { return ToShape{l.Shape} },
	PrunedAttrs: func(_ ToShape, l graph.PrunedShape) ToShape { return ToShape{l.Shape} },
	FLOPs:       zeroFLOPs[ToShape],
	Bytes:       func(_ []Shape, out Shape, _ ToShape) int64 { return 4 * int64(out.Size()) },
	scalar:      &identity,
	Ref:         func(c Call, _ ToShape) { Apply(NewLoop(c.OutShape, c.InShape), &identity, 0, c.In, c.Out) },
	Cases: []Case[ToShape]{
		{Name: "scalar", In: []Shape{{}}, A: ToShape{Shape{2, 3, 5}}},
		{Name: "channels", In: []Shape{{1, 3, 1, 1, 1}}, A: ToShape{Shape{2, 3, 5, 6, 7}}},
		{Name: "two axes", In: []Shape{{2, 1, 5, 1, 7}}, A: ToShape{Shape{2, 3, 5, 6, 7}}},
	},
})

func init() {
	sum.SetGrad(func(b *Builder, in []Value, _, dy Value, _ Axes) []Value {
		return []Value{broadcast.add(b, ToShape{in[0].Shape()}, dy)}
	})
	broadcast.SetGrad(func(b *Builder, in []Value, _, dy Value, _ ToShape) []Value {
		return []Value{SumTo(b, dy, in[0].Shape())}
	})
}

// Sum adds up the given axes, which remain with size 1. Without axes it adds up
// all elements to a scalar. All backends sum in float64.
//
// Shape: x → the same with size 1 along axes, or a scalar.
// Gradient: dy, broadcast.
// Errors: ErrShape if an axis is out of range.
func Sum(b *Builder, x Value, axes ...int) Value {
	if len(axes) == 0 {
		return sum.add(b, Axes{}, x)
	}
	return sum.add(b, Axes{Axes: axes, Keep: true}, x)
}

// Mean is Sum divided by the number of summed elements.
func Mean(b *Builder, x Value, axes ...int) Value {
	y := Sum(b, x, axes...)
	if !y.Valid() {
		return y
	}
	return Scale(b, y, float64(y.Shape().Size())/float64(x.Shape().Size()))
}

// SumTo sums v over the axes along which s is broadcast to the shape of v. It
// is the gradient of broadcasting.
func SumTo(b *Builder, v Value, s Shape) Value {
	from := v.Shape()
	if !v.Valid() || from.Equal(s) {
		return v
	}
	if len(s) == 0 {
		return Sum(b, v)
	}
	if len(s) != len(from) {
		return b.Fail("sum_to", shapeError("cannot sum %v to %v", from, s))
	}
	var axes []int
	for i := range s {
		if s[i] == 1 && from[i] > 1 {
			axes = append(axes, i)
		}
	}
	return Sum(b, v, axes...)
}

// BroadcastTo repeats x along its axes of size 1, or a scalar along all axes,
// to shape s.
//
// Gradient: dy summed over the broadcast axes.
// Errors: ErrShape.
func BroadcastTo(b *Builder, x Value, s Shape) Value { return broadcast.add(b, ToShape{s}, x) }

// WeightedMean is Σ w·x / Σ w over all elements, with w broadcast to the shape
// of x: latitude weights, or a mask of 0 and 1. If all weights are 0, the
// result and its gradient are 0.
//
// Shape: x any, w broadcastable to it → scalar.
// Unit: that of x.
// Gradient: by composition, to x and w.
// Errors: ErrShape.
// Source: definition of a weighted mean.
func WeightedMean(b *Builder, x, w Value) Value {
	total := Sum(b, w)
	num := Sum(b, Mul(b, x, w))
	if !num.Valid() || !total.Valid() {
		return Value{}
	}
	if s, err := graph.Broadcast(x.Shape(), w.Shape()); err != nil || !s.Equal(x.Shape()) {
		return b.Fail("weighted_mean", shapeError("weights %v do not broadcast to x %v", w.Shape(), x.Shape()))
	}
	repeat := float64(x.Shape().Size()) / float64(w.Shape().Size())
	return SafeDiv(b, num, Scale(b, total, repeat))
}

// String prints the axes, or "all".
func (a Axes) String() string {
	if !a.Keep {
		return "all"
	}
	return fmt.Sprint(a.Axes)
}
