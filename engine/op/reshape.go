package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// To is the shape that an operation gives to its operand.
type To struct{ Shape Shape }

var reshape = Define(Spec[To]{
	Name:   "reshape",
	Doc:    "The same elements in the same row-major order under another shape; no copy.",
	Source: "elementary",
	Alias:  true,
	Shape: func(in []Shape, a To) (Shape, error) {
		if len(in) != 1 || in[0].Size() != a.Shape.Size() {
			return nil, shapeError("%v as %v", in, a.Shape)
		}
		return a.Shape.Clone(), nil
	},
	Local: func(_ To, l graph.Local) To { return To{l.To} },
	FLOPs: moves[To],
	Bytes: func([]Shape, Shape, To) int64 { return 0 },
	Ref:   func(c Call, _ To) { copy(c.Out, c.In[0]) },
	Cases: []Case[To]{{Name: "levels to batch", In: []Shape{{2, 3, 5, 6}}, A: To{Shape{6, 1, 5, 6}}}},
})

func init() {
	reshape.SetGrad(func(b *Builder, in []Value, _, dy Value, _ To) []Value {
		return []Value{Reshape(b, dy, in[0].Shape())}
	})
}

// Reshape gives x another shape of the same size; the order of elements stays.
//
// Errors: ErrShape. Memory: shares that of x.
func Reshape(b *Builder, x Value, s Shape) Value {
	if x.Valid() && x.Shape().Equal(s) {
		return x
	}
	return reshape.add(b, To{s}, x)
}
