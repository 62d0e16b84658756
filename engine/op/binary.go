package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// binaryCases are the shapes with which operations of two operands are tested:
// equal shapes, each kind of broadcasting, and scalars.
func binaryCases(low, high float64) []Case[none] {
	full := Shape{2, 3, 5, 6, 7}
	return []Case[none]{
		{Name: "equal", In: []Shape{full, full}, Low: low, High: high},
		{Name: "per channel", In: []Shape{full, {1, 3, 1, 1, 1}}, Low: low, High: high},
		{Name: "per latitude, first operand", In: []Shape{{1, 1, 1, 6, 1}, full}, Low: low, High: high},
		{Name: "both stretched", In: []Shape{{2, 1, 5, 1, 7}, {1, 3, 5, 6, 1}}, Low: low, High: high},
		{Name: "scalar", In: []Shape{full, {}}, Low: low, High: high},
		{Name: "scalar first", In: []Shape{{}, {4, 3}}, Low: low, High: high},
	}
}

var add = elementwise(Spec[none]{
	Name: "add", Doc: "x + y, point by point, broadcast.", Source: "elementary",
	Grad: func(b *Builder, in []Value, _, dy Value, _ none) []Value {
		return []Value{SumTo(b, dy, in[0].Shape()), SumTo(b, dy, in[1].Shape())}
	},
	Fuses: graph.FuseAdd,
	Cases: binaryCases(0, 0),
}, graph.Scalar{F2: func(x, y, _ float64) float64 { return x + y }})

// Add is x + y, point by point. Axes of size 1 and scalars are broadcast.
//
// Gradient: dy to both, summed over broadcast axes.
// Errors: ErrShape.
func Add(b *Builder, x, y Value) Value { return add.add(b, none{}, x, y) }

var sub = elementwise(Spec[none]{
	Name: "sub", Doc: "x − y, point by point, broadcast.", Source: "elementary",
	Grad: func(b *Builder, in []Value, _, dy Value, _ none) []Value {
		return []Value{SumTo(b, dy, in[0].Shape()), Scale(b, SumTo(b, dy, in[1].Shape()), -1)}
	},
	Cases: binaryCases(0, 0),
}, graph.Scalar{F2: func(x, y, _ float64) float64 { return x - y }})

// Sub is x − y, point by point. Axes of size 1 and scalars are broadcast.
//
// Gradient: dy to x, −dy to y, summed over broadcast axes.
// Errors: ErrShape.
func Sub(b *Builder, x, y Value) Value { return sub.add(b, none{}, x, y) }

var mul = elementwise(Spec[none]{
	Name: "mul", Doc: "x·y, point by point, broadcast.", Source: "elementary",
	Cases: binaryCases(0, 0),
}, graph.Scalar{F2: func(x, y, _ float64) float64 { return x * y }, ZeroFactor: true})

func init() {
	mul.SetGrad(func(b *Builder, in []Value, _, dy Value, _ none) []Value {
		return []Value{
			SumTo(b, Mul(b, dy, in[1]), in[0].Shape()),
			SumTo(b, Mul(b, dy, in[0]), in[1].Shape()),
		}
	})
}

// Mul is x·y, point by point. Axes of size 1 and scalars are broadcast.
//
// Gradient: dy·y to x, dy·x to y, summed over broadcast axes.
// Errors: ErrShape.
func Mul(b *Builder, x, y Value) Value { return mul.add(b, none{}, x, y) }

var div = elementwise(Spec[none]{
	Name: "div", Doc: "x/y, point by point, broadcast.", Source: "elementary",
	Cases: binaryCases(0.5, 2),
}, graph.Scalar{F2: func(x, y, _ float64) float64 { return x / y }})

func init() {
	div.SetGrad(func(b *Builder, in []Value, out, dy Value, _ none) []Value {
		return []Value{
			SumTo(b, Div(b, dy, in[1]), in[0].Shape()),
			SumTo(b, Scale(b, Div(b, Mul(b, dy, out), in[1]), -1), in[1].Shape()),
		}
	})
}

// Div is x/y, point by point. Axes of size 1 and scalars are broadcast.
//
// Missing: y = 0 gives ±Inf, or NaN for 0/0; see SafeDiv.
// Gradient: dy/y to x, −dy·x/y² to y, summed over broadcast axes.
// Errors: ErrShape.
func Div(b *Builder, x, y Value) Value { return div.add(b, none{}, x, y) }

var safeDiv = elementwise(Spec[none]{
	Name: "safe_div", Doc: "x/y, and 0 where y is 0, point by point, broadcast.", Source: "elementary",
	Cases: binaryCases(0.5, 2),
}, graph.Scalar{F2: func(x, y, _ float64) float64 {
	if y == 0 {
		return 0
	}
	return x / y
}})

func init() {
	safeDiv.SetGrad(func(b *Builder, in []Value, out, dy Value, _ none) []Value {
		return []Value{
			SumTo(b, SafeDiv(b, dy, in[1]), in[0].Shape()),
			SumTo(b, Scale(b, SafeDiv(b, Mul(b, dy, out), in[1]), -1), in[1].Shape()),
		}
	})
}

// SafeDiv is x/y, and 0 where y is 0: the mean over an empty mask, for example.
// Axes of size 1 and scalars are broadcast.
//
// Gradient: that of Div, and 0 where y is 0.
// Errors: ErrShape.
func SafeDiv(b *Builder, x, y Value) Value { return safeDiv.add(b, none{}, x, y) }
