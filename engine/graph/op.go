package graph

// LayoutBound are attributes of an operation that runs in one layout only, if bound is
// true.
type LayoutBound interface {
	Bound(inner Layout) (l Layout, bound bool)
}

// Op is everything the engine knows about one operation, with the type of its
// attributes erased. Package op defines operations through a typed Spec; this
// form is what passes and backends see.
type Op struct {
	Name   string // snake_case, unique
	Doc    string // one paragraph: what it computes, with its shapes
	Source string // where the formula comes from

	// Shape gives the shape of the result, or an error that wraps ErrShape.
	Shape func(in []Shape, attrs any) (Shape, error)
	// Grad extends the graph by the gradients with respect to the inputs,
	// given the result out and the gradient dy of the loss with respect to it.
	// The zero Value stands for an input without gradient.
	Grad func(b *Builder, in []Value, out, dy Value, attrs any) []Value
	// NoGrad says why there is no gradient, where Grad is nil.
	NoGrad string
	// Infer, where present, is what replaces the operation at inference.
	Infer func(b *Builder, in []Value, attrs any) Value
	// Window is the neighbourhood that one result reads.
	Window func(in []Shape, attrs any) Window
	// ShardAttrs, where present, gives the attributes with which a rank computes a part of
	// the result; where it is nil, they are those of the whole.
	ShardAttrs func(attrs any, l Shard) any
	// Ordered marks operations between ranks: all ranks run them in one order, once.
	Ordered bool
	// AnyLayout marks operations that treat the blocks of a blocked value as they
	// treat its channels. Attributes that are LayoutBound may name the one layout.
	AnyLayout bool
	// FLOPs counts the useful floating point operations of one execution.
	FLOPs func(in []Shape, out Shape, attrs any) int64
	// Bytes counts the memory that one execution must read and write.
	Bytes func(in []Shape, out Shape, attrs any) int64
	// Ref is the reference kernel.
	Ref func(c Call, attrs any)
	// InPlace tells whether input i may share its memory with the result
	// (only ever asked if both have the same size).
	InPlace func(i int, attrs any) bool
	// Alias marks operations whose result is their first input under another
	// shape: they cost nothing and run no kernel.
	Alias bool
	// Scalar, where present, is the scalar formula of an elementwise operation
	// from which backends generate loops.
	Scalar *Scalar
	// Random marks operations that draw random numbers (seed and step count).
	Random bool
	// Cases are small instances for the conformance suite.
	Cases []Case

	Traits
}

// Shard describes the part of a result that one rank computes.
type Shard struct {
	Shape Shape // of the part
	// Pads replaces the padding of an axis that is cut: what the windows of the first
	// result reach before the first operand that the rank holds. Beyond what it holds
	// there are zeros. −1 leaves the padding of an axis that is not cut.
	Pads []int
}

// Scalar is the formula of an elementwise operation of one, two or three
// operands; exactly one of F1, F2 and F3 is set. Operands are broadcast.
type Scalar struct {
	F1 func(x, p float64) float64
	F2 func(x, y, p float64) float64
	F3 func(x, y, z, p float64) float64
	// ZeroFactor says that the result is 0 where any operand is.
	ZeroFactor bool
	// P is the parameter handed to the formula (a factor, an exponent).
	P func(attrs any) float64
}

// Call is one execution of a reference kernel: float64 storage, sums in float64.
type Call struct {
	In         [][]float64
	InShape    []Shape
	Out        []float64 // not cleared before the call
	OutShape   Shape
	Seed, Step uint64 // key of random operations
}

// Case is one small instance of an operation for the conformance suite.
type Case struct {
	Name  string
	In    []Shape
	Attrs any
	// Low and High bound the random inputs; both zero mean −1 and 1.
	Low, High float64
	// Fixed lists inputs for which no gradient is checked.
	Fixed []int
	// Make, if not nil, makes random inputs agree with each other (the result
	// of a forward pass among the operands of its gradient).
	Make func(in [][]float64)
}
