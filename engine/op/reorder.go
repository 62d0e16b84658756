package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// ToLayout is the attribute of reorder: the layout of the result.
type ToLayout struct{ Layout graph.Layout }

var reorder = Define(Spec[ToLayout]{
	Name:   "reorder",
	Doc:    "The same value in another layout of memory.",
	Source: "made by the pass choose-layouts",
	NoGrad: "the pass choose-layouts makes it after gradients have been added",
	Shape:  shapeOfOperand[ToLayout](0),
	FLOPs:  zeroFLOPs[ToLayout],
	Ref:    func(c Call, _ ToLayout) { copy(c.Out, c.In[0]) },
	Cases:  []Case[ToLayout]{{Name: "plain to plain", In: []Shape{{2, 3, 2, 5, 6}}}},
})

// Reorder is x in another layout. The pass choose-layouts writes it.
func Reorder(b *Builder, x Value, l graph.Layout) Value {
	v := reorder.add(b, ToLayout{l}, x)
	v.SetLayout(l)
	return v
}
