package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Range is the range lo ≤ i < hi of one axis. Size is the length of the whole
// axis for embed; slice does not use it.
type Range struct{ Axis, Lo, Hi, Size int }

// pruned is the range after channels were removed. of is the value whose axis
// it counts: an operand or Result.
func (a Range) pruned(l graph.PrunedShape, of int) Range {
	a.Lo, a.Hi = l.CountBefore(of, a.Axis, a.Lo), l.CountBefore(of, a.Axis, a.Hi)
	return a
}

// slice takes a range of an axis. Its adjoint is embed.
var slice = Define(Spec[Range]{
	Name:   "slice",
	Doc:    "The range lo ≤ i < hi of one axis.",
	Source: "elementary",
	Shape: func(in []Shape, a Range) (Shape, error) {
		if len(in) != 1 || a.Axis < 0 || a.Axis >= len(in[0]) || a.Lo < 0 || a.Hi <= a.Lo || a.Hi > in[0][a.Axis] {
			return nil, shapeError("range %d:%d of axis %d exceeds %v", a.Lo, a.Hi, a.Axis, in)
		}
		out := in[0].Clone()
		out[a.Axis] = a.Hi - a.Lo
		return out, nil
	},
	FLOPs: zeroFLOPs[Range],
	Moves: graph.MoveSlice,
	TieChannels: func(t graph.ChannelConstraints, _ []Shape, out Shape, a Range) {
		tieRange(t, 0, graph.Result, out, a.Axis, a.Lo)
	},
	PrunedAttrs: func(a Range, l graph.PrunedShape) Range { return a.pruned(l, 0) },
	Bytes:       func(_ []Shape, out Shape, _ Range) int64 { return 8 * int64(out.Size()) },
	Ref: func(c Call, a Range) {
		step := c.InShape[0][a.Axis:].Size()
		inner := c.InShape[0][a.Axis+1:].Size()
		run := (a.Hi - a.Lo) * inner
		copyRuns(c.Out, run, c.In[0][a.Lo*inner:], step, run, c.InShape[0][:a.Axis].Size())
	},
	Cases: []Case[Range]{
		{Name: "channels", In: []Shape{{2, 5, 2, 3, 4}}, A: Range{Axis: 1, Lo: 1, Hi: 4}},
		{Name: "last", In: []Shape{{2, 5, 7}}, A: Range{Axis: 2, Lo: 0, Hi: 6}},
		{Name: "first", In: []Shape{{4, 3}}, A: Range{Axis: 0, Lo: 3, Hi: 4}},
	},
})

// embed places its operand in a longer axis of zeros. Its adjoint is slice.
var embed = Define(Spec[Range]{
	Name:   "embed",
	Doc:    "A value as the range lo ≤ i < hi of a longer axis, zeros elsewhere: the adjoint of slice, and zero padding.",
	Source: "elementary",
	Shape: func(in []Shape, a Range) (Shape, error) {
		if len(in) != 1 || a.Axis < 0 || a.Axis >= len(in[0]) || a.Lo < 0 || a.Hi > a.Size || a.Hi-a.Lo != in[0][a.Axis] {
			return nil, shapeError("%v does not fit range %d:%d of axis %[5]d with length %[4]d", in, a.Lo, a.Hi, a.Size, a.Axis)
		}
		out := in[0].Clone()
		out[a.Axis] = a.Size
		return out, nil
	},
	FLOPs: zeroFLOPs[Range],
	Moves: graph.MovePad,
	TieChannels: func(t graph.ChannelConstraints, in []Shape, _ Shape, a Range) {
		tieRange(t, graph.Result, 0, in[0], a.Axis, a.Lo)
		for i := range a.Size { // later operations may rely on these zeros
			if i < a.Lo || i >= a.Hi {
				t.PinIndex(graph.Result, a.Axis, i, "zeros are added to it at "+t.Location())
			}
		}
	},
	PrunedAttrs: func(a Range, l graph.PrunedShape) Range {
		a.Size = l.Shape[a.Axis]
		return a.pruned(l, graph.Result)
	},
	Ref: func(c Call, a Range) {
		clear(c.Out)
		run := c.InShape[0][a.Axis:].Size()
		inner := c.InShape[0][a.Axis+1:].Size()
		copyRuns(c.Out[a.Lo*inner:], a.Size*inner, c.In[0], run, run, c.InShape[0][:a.Axis].Size())
	},
	Cases: []Case[Range]{
		{Name: "channels", In: []Shape{{2, 3, 2, 3, 4}}, A: Range{Axis: 1, Lo: 1, Hi: 4, Size: 5}},
		{Name: "last", In: []Shape{{2, 5, 6}}, A: Range{Axis: 2, Lo: 1, Hi: 7, Size: 7}},
		{Name: "first", In: []Shape{{1, 3}}, A: Range{Axis: 0, Lo: 3, Hi: 4, Size: 4}},
	},
})

func init() {
	slice.SetGrad(func(b *Builder, in []Value, _, dy Value, a Range) []Value {
		a.Size = in[0].Shape()[a.Axis]
		return []Value{embed.add(b, a, dy)}
	})
	embed.SetGrad(func(b *Builder, _ []Value, _, dy Value, a Range) []Value {
		return []Value{Slice(b, dy, a.Axis, a.Lo, a.Hi)}
	})
}

// Slice is the range lo ≤ i < hi of one axis.
//
// Gradient: dy in this range, zeros elsewhere.
// Errors: ErrShape.
func Slice(b *Builder, x Value, axis, lo, hi int) Value {
	return slice.add(b, Range{Axis: axis, Lo: lo, Hi: hi}, x)
}

// PadZeros adds zeros before and after x along one axis.
//
// Gradient: the slice of dy.
// Errors: ErrShape.
func PadZeros(b *Builder, x Value, axis, before, after int) Value {
	n := x.Dim(axis)
	return embed.add(b, Range{Axis: axis, Lo: before, Hi: before + n, Size: before + n + after}, x)
}
