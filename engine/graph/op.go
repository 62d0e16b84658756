package graph

// LayoutBound is implemented by attributes of operations that accept any layout
// in general (Op.AnyLayout) and only one in some cases. inner is the layout
// that the backend uses inside a network. If bound is true, the operation runs
// in layout l only.
type LayoutBound interface {
	Bound(inner Layout) (l Layout, bound bool)
}

// Op is the definition of one operation, with the type of its attributes
// erased. Package op defines operations through a typed Spec. Passes and
// backends use this form.
type Op struct {
	Name   string // snake_case, unique
	Doc    string // one paragraph: the result and the shapes
	Source string // paper or document of the formula

	// Shape is the shape rule. Its errors wrap ErrShape.
	Shape func(in []Shape, attrs any) (Shape, error)
	// Grad extends the graph by the gradients with respect to the operands in.
	// out is the result, dy the gradient of the loss with respect to it. The
	// result has one Value per operand; the zero Value means no gradient.
	Grad func(b *Builder, in []Value, out, dy Value, attrs any) []Value
	// NoGrad states why there is no gradient. It is set if Grad is nil.
	NoGrad string
	// Infer builds the replacement of the operation at inference, such as
	// running statistics for batch statistics. Nil keeps the operation.
	Infer func(b *Builder, in []Value, attrs any) Value
	// Window is the neighbourhood that one result element reads.
	Window func(in []Shape, attrs any) Window
	// ShardAttrs returns the attributes with which a rank computes its shard of
	// the result. Nil keeps the attributes.
	ShardAttrs func(attrs any, l Shard) any
	// Ordered marks communication between ranks. All ranks run such operations
	// in the same order, each once per step.
	Ordered bool
	// AnyLayout marks operations that treat the blocks of a blocked value as
	// they treat its channels. Attributes that implement LayoutBound may
	// restrict the layout.
	AnyLayout bool
	// FLOPs counts the useful floating point operations of one execution.
	FLOPs func(in []Shape, out Shape, attrs any) int64
	// Bytes counts the memory traffic of one execution: bytes that must be read
	// and written.
	Bytes func(in []Shape, out Shape, attrs any) int64
	// Ref is the reference kernel, in float64. Tests compare all other kernels
	// with it.
	Ref func(c Call, attrs any)
	// InPlace reports whether operand i may share its memory with the result.
	// It is only called if both have the same size.
	InPlace func(i int, attrs any) bool
	// Alias marks operations whose result is their first operand with another
	// shape. They run no kernel and cost nothing.
	Alias bool
	// Scalar is the scalar formula of an elementwise operation, from which
	// backends generate loops. It is nil for all others.
	Scalar *Scalar
	// Random marks operations that draw random numbers. These depend on the
	// seed, the step and the stream number.
	Random bool
	// Cases are small instances for the conformance suite.
	Cases []Case

	Traits
}

// Shard describes the part of a result that one rank computes.
type Shard struct {
	Shape Shape // of the part
	// Pads replaces the padding of a partitioned axis: the distance that the
	// window of the first result element reaches before the first operand
	// element that the rank holds. Elements beyond those held are zeros. −1
	// keeps the padding of an axis that is not partitioned.
	Pads []int
}

// Scalar is the formula of an elementwise operation of one, two or three
// operands. Exactly one of F1, F2 and F3 is set. Operands are broadcast.
type Scalar struct {
	F1 func(x, p float64) float64       // one operand
	F2 func(x, y, p float64) float64    // two operands
	F3 func(x, y, z, p float64) float64 // three operands
	// ZeroFactor reports that the result is 0 wherever an operand is 0. Padding
	// lanes of a layout then stay zero.
	ZeroFactor bool
	// P returns the parameter p of the formula (a factor, an exponent) from the
	// attributes.
	P func(attrs any) float64
}

// Call is one execution of a reference kernel, with values and sums in float64.
type Call struct {
	In         [][]float64 // values of the operands
	InShape    []Shape
	Out        []float64 // not zeroed before the call
	OutShape   Shape
	Seed, Step uint64 // key of random operations
}

// Case is one small instance of an operation for the conformance suite.
type Case struct {
	Name  string // unique within the operation
	In    []Shape
	Attrs any
	// Low and High bound the random operands. If both are zero the bounds are
	// −1 and 1.
	Low, High float64
	// Fixed lists the operands whose gradient is not checked.
	Fixed []int
	// Make, if not nil, adjusts the random operands so that they are
	// consistent, such as the result of a forward pass among the operands of
	// its gradient.
	Make func(in [][]float64)
}
