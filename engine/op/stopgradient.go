package op

// stopGradient is the identity with gradient 0.
var stopGradient = Define(Spec[none]{
	Name:    "stop_gradient",
	Doc:     "x, as a constant for differentiation: no gradient passes.",
	Source:  "truncated back-propagation through time, Williams and Peng 1990, doi:10.1162/neco.1990.2.4.490",
	Shape:   shapeOfOperand[none](0),
	Grad:    func(_ *Builder, _ []Value, _, _ Value, _ none) []Value { return []Value{{}} },
	FLOPs:   zeroFLOPs[none],
	InPlace: inPlace[none](0),
	scalar:  &identity,
	Ref:     func(c Call, _ none) { copy(c.Out, c.In[0]) },
	// Finite differences cannot check a gradient that is defined as 0.
	Cases: []Case[none]{{Name: "5-D", In: []Shape{{2, 3, 2, 3, 5}}, Fixed: []int{0}}},
})

// StopGradient is x, treated as a constant by differentiation.
//
// Shape: that of x.
// Gradient: none.
// Source: truncated back-propagation through time, Williams and Peng 1990,
// doi:10.1162/neco.1990.2.4.490.
func StopGradient(b *Builder, x Value) Value { return stopGradient.add(b, none{}, x) }
