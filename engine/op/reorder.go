package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Into is the attribute of reorder: the layout of the result.
type Into struct{ Layout graph.Layout }

var reorder = Define(Spec[Into]{
	Name:   "reorder",
	Doc:    "The same value in another layout of memory.",
	Source: "made by the pass choose-layouts",
	NoGrad: "the pass choose-layouts makes it after gradients have been added",
	Shape:  same[Into](0),
	FLOPs:  moves[Into],
	Ref:    func(c Call, _ Into) { copy(c.Out, c.In[0]) },
	Cases:  []Case[Into]{{Name: "plain to plain", In: []Shape{{2, 3, 2, 5, 6}}}},
})

// Reorder is x in another layout. The pass choose-layouts writes it.
func Reorder(b *Builder, x Value, l graph.Layout) Value {
	v := reorder.add(b, Into{l}, x)
	v.SetLayout(l)
	return v
}
