package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// ToLayout is the attribute of reorder: the memory layout of the result.
type ToLayout struct{ Layout graph.Layout }

// reorder copies a value to another memory layout. Its elements do not change.
var reorder = Define(Spec[ToLayout]{
	Name:   "reorder",
	Doc:    "The same value in another memory layout.",
	Source: "inserted by the pass choose-layouts",
	NoGrad: "inserted by the pass choose-layouts after gradients were added",
	Shape:  shapeOfOperand[ToLayout](0),
	FLOPs:  zeroFLOPs[ToLayout],
	Ref:    func(c Call, _ ToLayout) { copy(c.Out, c.In[0]) },
	Cases:  []Case[ToLayout]{{Name: "plain to plain", In: []Shape{{2, 3, 2, 5, 6}}}},
})

// Reorder appends a copy of x in layout l. Only the pass choose-layouts calls
// it.
//
// Shape: that of x. Gradient: none; layouts are chosen after gradients were
// added.
func Reorder(b *Builder, x Value, l graph.Layout) Value {
	v := reorder.add(b, ToLayout{l}, x)
	v.SetLayout(l)
	return v
}
