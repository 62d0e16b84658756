package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// elementwise declares an operation by its scalar formula. A is none, or
// float64 for formulas with a parameter.
func elementwise[A any](s Spec[A], f graph.Scalar) Def[A] {
	f.P = func(a any) float64 {
		p, _ := a.(float64)
		return p
	}
	s.scalar = &f
	operands := 1
	switch {
	case f.F2 != nil:
		operands = 2
	case f.F3 != nil:
		operands = 3
	}
	s.Shape = func(in []Shape, _ A) (Shape, error) {
		if len(in) != operands {
			return nil, shapeError("%d operands, want %d", len(in), operands)
		}
		return graph.Broadcast(in...)
	}
	s.InPlace = func(int, A) bool { return true }
	s.Ref = func(c Call, a A) { Apply(NewLoop(c.OutShape, c.InShape), &f, f.P(a), c.In, c.Out) }
	return Define(s)
}

// unary declares an elementwise operation of one operand together with its
// derivative. Exactly one of Dx and Dy is set. Dx is the derivative as a
// function of the operand, Dy as a function of the result. With Dy the operand
// need not be kept for the backward pass, and the operation may run in place.
type unary struct {
	Name, Doc, Source string
	F, Dx, Dy         func(x, p float64) float64 // function, and one of its derivatives
	Low, High         float64                    // range of the operands in cases
	// Selects: where the derivative is 0, the gradient is 0 whatever dy is, also NaN.
	Selects bool

	Fuses, FusesGrad graph.Fuse // roles in fusions
}

// unaryOp is a unary operation with its gradient.
type unaryOp[A any] struct{ op, grad Def[A] }

// defineUnary declares the operations name and name_grad. param is the
// parameter of the formula in cases.
func defineUnary[A any](u unary, param A) unaryOp[A] {
	d, of := u.Dx, "operand"
	if u.Dy != nil {
		d, of = u.Dy, "result"
	}
	shapes := func(k int) []Shape {
		s := []Shape{{3, 2, 5, 6, 7}, {3, 2, 5, 6, 7}}
		return s[:k]
	}
	grad := elementwise(Spec[A]{
		Name:   u.Name + "_grad",
		Doc:    "Gradient of " + u.Name + ": dy times the derivative, a function of the " + of + ".",
		Source: u.Source,
		NoGrad: noSecondOrder,
		Fuses:  u.FusesGrad,
		Cases:  []Case[A]{{Name: "5-D", In: shapes(2), A: param, Low: u.Low, High: u.High}},
	}, graph.Scalar{F2: func(x, dy, p float64) float64 {
		slope := d(x, p)
		if u.Selects && slope == 0 {
			return 0
		}
		return dy * slope
	}})
	op := elementwise(Spec[A]{
		Name: u.Name, Doc: u.Doc, Source: u.Source, Fuses: u.Fuses,
		Grad: func(b *Builder, in []Value, out, dy Value, a A) []Value {
			if u.Dy != nil {
				return []Value{grad.add(b, a, out, dy)}
			}
			return []Value{grad.add(b, a, in[0], dy)}
		},
		Cases: []Case[A]{{Name: "5-D", In: shapes(1), A: param, Low: u.Low, High: u.High}},
	}, graph.Scalar{F1: u.F})
	return unaryOp[A]{op, grad}
}
