package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// ToShape is the shape that an operation gives to its operand.
type ToShape struct{ Shape Shape }

// reshape is an alias of its operand: no kernel runs.
var reshape = Define(Spec[ToShape]{
	Name:   "reshape",
	Doc:    "The same elements in the same row-major order under another shape; no copy.",
	Source: "elementary",
	Alias:  true,
	Shape: func(in []Shape, a ToShape) (Shape, error) {
		if len(in) != 1 || in[0].Size() != a.Shape.Size() {
			return nil, shapeError("cannot reshape %v to %v", in, a.Shape)
		}
		return a.Shape.Clone(), nil
	},
	Split:       graph.SplitReshape,
	ShardAttrs:  func(_ ToShape, l graph.Shard) ToShape { return ToShape{l.Shape} },
	TieChannels: func(t graph.ChannelConstraints, in []Shape, out Shape, _ ToShape) { tieReshaped(t, in[0], out) },
	PrunedAttrs: func(_ ToShape, l graph.PrunedShape) ToShape { return ToShape{l.Shape} },
	FLOPs:       zeroFLOPs[ToShape],
	Bytes:       func([]Shape, Shape, ToShape) int64 { return 0 },
	Ref:         func(c Call, _ ToShape) { copy(c.Out, c.In[0]) },
	Cases:       []Case[ToShape]{{Name: "levels to batch", In: []Shape{{2, 3, 5, 6}}, A: ToShape{Shape{6, 1, 5, 6}}}},
})

func init() {
	reshape.SetGrad(func(b *Builder, in []Value, _, dy Value, _ ToShape) []Value {
		return []Value{Reshape(b, dy, in[0].Shape())}
	})
}

// tieReshaped ties the axes that a reshape preserves, and pins those that it
// merges or splits.
func tieReshaped(t graph.ChannelConstraints, from, to Shape) {
	for i, j := 0, 0; i < len(from) || j < len(to); {
		lo, hi := i, j
		a, b := 1, 1
		if i < len(from) {
			a, i = from[i], i+1
		}
		if j < len(to) {
			b, j = to[j], j+1
		}
		for a != b {
			if a < b && i < len(from) {
				a, i = a*from[i], i+1
			} else if j < len(to) {
				b, j = b*to[j], j+1
			} else {
				break
			}
		}
		x, y := singleAxis(from, lo, i), singleAxis(to, hi, j)
		if x >= 0 && y >= 0 {
			t.TieAxes(0, x, graph.Result, y)
			continue
		}
		for axis := lo; axis < i; axis++ {
			t.PinAxes(0, t.Description()+" merges or splits it", axis)
		}
		for axis := hi; axis < j; axis++ {
			t.PinAxes(graph.Result, t.Description()+" merges or splits it", axis)
		}
	}
}

// singleAxis is the single axis of s in lo … hi that is longer than 1, or −1 if
// there is none or more than one.
func singleAxis(s Shape, lo, hi int) int {
	found := -1
	for i := lo; i < hi; i++ {
		if s[i] > 1 {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// Reshape gives x another shape of the same size, in row-major order.
//
// Gradient: dy in the shape of x.
// Memory: shares that of x.
// Errors: ErrShape if the sizes differ.
func Reshape(b *Builder, x Value, s Shape) Value {
	if x.Valid() && x.Shape().Equal(s) {
		return x
	}
	return reshape.add(b, ToShape{s}, x)
}
