package op

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Short names for the types of package graph that every definition uses.
type (
	// Shape is graph.Shape.
	Shape = graph.Shape
	// Value is graph.Value.
	Value = graph.Value
	// Builder is graph.Builder.
	Builder = graph.Builder
	// Window is graph.Window.
	Window = graph.Window
	// WindowAxis is graph.WindowAxis.
	WindowAxis = graph.WindowAxis
	// Call is graph.Call.
	Call = graph.Call
)

// ErrShape is wrapped by errors about shapes that do not fit an operation.
var ErrShape = graph.ErrShape

// Spec declares an operation with attributes of type A. Name, Doc, Source,
// Shape, Ref and either Grad or NoGrad are required. graph.Op documents the
// fields.
type Spec[A any] struct {
	Name, Doc, Source string

	Shape      func(in []Shape, a A) (Shape, error)                     // shape rule
	Grad       func(b *Builder, in []Value, out, dy Value, a A) []Value // nil if NoGrad is set
	NoGrad     string
	Infer      func(b *Builder, in []Value, a A) Value // nil: the operation itself
	Window     func(in []Shape, a A) Window            // nil: point by point
	Split      graph.Split                             // zero: derived from the window
	ShardAttrs func(a A, l graph.Shard) A              // nil: a
	FLOPs      func(in []Shape, out Shape, a A) int64  // nil: one per element of the result
	Bytes      func(in []Shape, out Shape, a A) int64  // nil: all operands and the result, once
	Ref        func(c Call, a A)                       // reference kernel
	InPlace    func(i int, a A) bool                   // nil: never
	Alias      bool
	Random     bool

	Moves  graph.Move
	Fuses  graph.Fuse
	Class  graph.Class
	Conv   *graph.Conv
	Filter *graph.Filter
	// nil: tied point by point for a scalar formula; else all channels are
	// pinned
	TieChannels    func(t graph.ChannelConstraints, in []Shape, out Shape, a A)
	PrunedAttrs    func(a A, l graph.PrunedShape) A // nil: a
	Quantisable    bool
	PreservesScale func(a A) bool // nil: never

	Cases []Case[A]

	scalar *graph.Scalar // set by elementwise definitions
}

// Case is one small instance for the conformance suite. Sizes differ per axis,
// so that swapped axes are detected.
type Case[A any] struct {
	Name      string
	In        []Shape
	A         A
	Low, High float64              // range of the random operands; both zero: −1 to 1
	Fixed     []int                // operands whose gradient is not checked
	Make      func(in [][]float64) // makes the random operands consistent; nil leaves them
}

// Def is a defined operation with attributes of type A.
type Def[A any] struct{ *graph.Op }

// Define turns a Spec into an operation. Operations that occur in each other's
// gradients are connected afterwards by SetGrad.
func Define[A any](s Spec[A]) Def[A] {
	o := &graph.Op{
		Name: s.Name, Doc: s.Doc, Source: s.Source, NoGrad: s.NoGrad,
		Alias: s.Alias, Random: s.Random, Scalar: s.scalar,
		Traits: graph.Traits{Split: s.Split, Moves: s.Moves, Fuses: s.Fuses, Class: s.Class, Conv: s.Conv, Filter: s.Filter, Quantisable: s.Quantisable},
		Shape:  func(in []Shape, a any) (Shape, error) { return s.Shape(in, a.(A)) },
		Ref:    func(c Call, a any) { s.Ref(c, a.(A)) },
		Window: func(in []Shape, a any) Window {
			if s.Window == nil {
				return Window{}
			}
			return s.Window(in, a.(A))
		},
		FLOPs: func(in []Shape, out Shape, a any) int64 {
			if s.FLOPs == nil {
				return int64(out.Size())
			}
			return s.FLOPs(in, out, a.(A))
		},
		Bytes: func(in []Shape, out Shape, a any) int64 {
			if s.Bytes != nil {
				return s.Bytes(in, out, a.(A))
			}
			n := out.Size()
			for _, x := range in {
				n += x.Size()
			}
			return 4 * int64(n)
		},
		InPlace: func(i int, a any) bool { return s.InPlace != nil && s.InPlace(i, a.(A)) },
	}
	d := Def[A]{o}
	if s.Grad != nil {
		d.SetGrad(s.Grad)
	}
	if s.Infer != nil {
		o.Infer = func(b *Builder, in []Value, a any) Value { return s.Infer(b, in, a.(A)) }
	}
	if s.ShardAttrs != nil {
		o.ShardAttrs = func(a any, l graph.Shard) any { return s.ShardAttrs(a.(A), l) }
	}
	if s.TieChannels != nil {
		o.TieChannels = func(t graph.ChannelConstraints, in []Shape, out Shape, a any) { s.TieChannels(t, in, out, a.(A)) }
	}
	if s.PrunedAttrs != nil {
		o.PrunedAttrs = func(a any, l graph.PrunedShape) any { return s.PrunedAttrs(a.(A), l) }
	}
	if s.PreservesScale != nil {
		o.PreservesScale = func(a any) bool { return s.PreservesScale(a.(A)) }
	}
	for _, c := range s.Cases {
		o.Cases = append(o.Cases, graph.Case{Name: c.Name, In: c.In, Attrs: c.A, Low: c.Low, High: c.High, Fixed: c.Fixed, Make: c.Make})
	}
	return d
}

// SetGrad sets the gradient rule of an operation that occurs in its own
// gradient, directly or indirectly. Go does not allow such a cycle in the
// declaration of a variable.
func (d Def[A]) SetGrad(grad func(b *Builder, in []Value, out, dy Value, a A) []Value) {
	d.Op.Grad = func(b *Builder, in []Value, out, dy Value, a any) []Value { return grad(b, in, out, dy, a.(A)) }
}

// add appends the operation to the graph.
func (d Def[A]) add(b *Builder, a A, in ...Value) Value { return b.Node(d.Op, a, in...) }

// none is the attribute type of operations without attributes.
type none = struct{}

// noSecondOrder is the reason why operations that occur only in gradients have
// no gradient.
const noSecondOrder = "occurs only in gradients; second derivatives are not supported"

// shapeError formats an error that wraps ErrShape.
func shapeError(format string, args ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrShape)
}

// shapeOfOperand is the shape rule of operations whose result has the shape of
// operand i.
func shapeOfOperand[A any](i int) func(in []Shape, a A) (Shape, error) {
	return func(in []Shape, _ A) (Shape, error) { return in[i].Clone(), nil }
}

// inPlace allows the listed operands to share memory with the result.
func inPlace[A any](operands ...int) func(i int, a A) bool {
	return func(i int, _ A) bool {
		for _, o := range operands {
			if o == i {
				return true
			}
		}
		return false
	}
}
