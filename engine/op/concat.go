package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// AlongAxis is the attribute of operations along one axis.
type AlongAxis struct{ Axis int }

// concat joins values along an axis. Its gradient is the slices of dy.
var concat = Define(Spec[AlongAxis]{
	Name:   "concat",
	Doc:    "Values concatenated along one axis, in the given order.",
	Source: "elementary",
	Shape: func(in []Shape, a AlongAxis) (Shape, error) {
		if len(in) == 0 || a.Axis < 0 || a.Axis >= len(in[0]) {
			return nil, shapeError("axis %d is out of range for %v", a.Axis, in)
		}
		out := in[0].Clone()
		for _, s := range in[1:] {
			if len(s) != len(out) {
				return nil, shapeError("%v differ in the number of axes", in)
			}
			for i := range s {
				if i != a.Axis && s[i] != out[i] {
					return nil, shapeError("%v differ in axis %d, concatenation is along axis %d", in, i, a.Axis)
				}
			}
			out[a.Axis] += s[a.Axis]
		}
		return out, nil
	},
	Grad: func(b *Builder, in []Value, _, dy Value, a AlongAxis) []Value {
		out := make([]Value, len(in))
		lo := 0
		for i, v := range in {
			hi := lo + v.Shape()[a.Axis]
			out[i] = Slice(b, dy, a.Axis, lo, hi)
			lo = hi
		}
		return out
	},
	FLOPs: zeroFLOPs[AlongAxis],
	Moves: graph.MoveConcat,
	TieChannels: func(t graph.ChannelConstraints, in []Shape, _ Shape, a AlongAxis) {
		lo := 0
		for i, s := range in {
			for axis, d := range s {
				at := 0
				if axis == a.Axis {
					at, lo = lo, lo+d
				}
				t.Tie(graph.Index{Value: i, Axis: axis}, graph.Index{Value: graph.Result, Axis: axis, At: at}, d)
			}
		}
	},
	Ref: func(c Call, a AlongAxis) {
		lo := 0
		for i, x := range c.In {
			run := c.InShape[i][a.Axis:].Size()
			copyRuns(c.Out[lo:], c.OutShape[a.Axis:].Size(), x, run, run, c.OutShape[:a.Axis].Size())
			lo += run
		}
	},
	Cases: []Case[AlongAxis]{
		{Name: "channels", In: []Shape{{2, 3, 2, 5, 6}, {2, 1, 2, 5, 6}, {2, 4, 2, 5, 6}}, A: AlongAxis{1}},
		{Name: "batch", In: []Shape{{2, 3, 5}, {1, 3, 5}}, A: AlongAxis{0}},
		{Name: "last", In: []Shape{{2, 3, 5}, {2, 3, 7}}, A: AlongAxis{2}},
	},
})

// IsChannelConcat reports whether a node concatenates values along the
// channels.
func IsChannelConcat(n *graph.Node) bool {
	return n.Moves(graph.MoveConcat) && n.Attrs.(AlongAxis).Axis == 1
}

// zeroFLOPs is the FLOP count of operations that only copy: none.
func zeroFLOPs[A any](_ []Shape, _ Shape, _ A) int64 { return 0 }

// copyRuns copies n runs of equal length. dstStep and srcStep are the distances
// between the starts of runs.
func copyRuns[T Elem](dst []T, dstStep int, src []T, srcStep, run, n int) {
	for i := range n {
		copy(dst[i*dstStep:i*dstStep+run], src[i*srcStep:i*srcStep+run])
	}
}

// Concat joins values along one axis, in the given order.
//
// Shape: equal except along the axis, where the sizes add up.
// Gradient: the slices of dy.
// Errors: ErrShape.
func Concat(b *Builder, axis int, xs ...Value) Value { return concat.add(b, AlongAxis{axis}, xs...) }
