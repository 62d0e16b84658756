package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// relu uses its result for the gradient, so the operand need not be kept. NaN
// propagates.
var relu = defineUnary(unary{
	Name: "relu", Doc: "max(x, 0), point by point; the derivative at 0 is 0.",
	Source: "Nair and Hinton 2010, ICML, Rectified linear units improve restricted Boltzmann machines",
	Fuses:  graph.FuseReLU, FusesGrad: graph.FuseReLUGrad,
	F: func(x, _ float64) float64 {
		if x > 0 || x != x { // NaN passes
			return x
		}
		return 0
	},
	Dy: func(y, _ float64) float64 {
		if y > 0 {
			return 1
		}
		return 0
	},
	Selects: true,
}, none{})

// ReLU is max(x, 0), point by point.
//
// Missing: NaN gives NaN.
// Gradient: dy where the result is positive, else 0, also where dy or the result is NaN.
func ReLU(b *Builder, x Value) Value { return relu.op.add(b, none{}, x) }

var exp = defineUnary(unary{
	Name: "exp", Doc: "eˣ, point by point.", Source: "NIST DLMF 4.2",
	F: func(x, _ float64) float64 { return math.Exp(x) }, Dy: func(y, _ float64) float64 { return y },
}, none{})

// Exp is eˣ, point by point.
//
// Gradient: dy·eˣ.
func Exp(b *Builder, x Value) Value { return exp.op.add(b, none{}, x) }

var log = defineUnary(unary{
	Name: "log", Doc: "Natural logarithm, point by point; NaN for negative x.", Source: "NIST DLMF 4.2",
	F: func(x, _ float64) float64 { return math.Log(x) }, Dx: func(x, _ float64) float64 { return 1 / x },
	Low: 0.2, High: 3,
}, none{})

// Log is the natural logarithm, point by point.
//
// Missing: negative x gives NaN, 0 gives −Inf.
// Gradient: dy/x.
func Log(b *Builder, x Value) Value { return log.op.add(b, none{}, x) }

var sqrt = defineUnary(unary{
	Name: "sqrt", Doc: "Square root, point by point; the derivative at 0 is infinite.", Source: "NIST DLMF 4.2",
	F: func(x, _ float64) float64 { return math.Sqrt(x) }, Dy: func(y, _ float64) float64 { return 0.5 / y },
	Low: 0.2, High: 3,
}, none{})

// Sqrt is the square root, point by point.
//
// Missing: negative x gives NaN.
// Gradient: dy/(2√x), infinite at 0; add a floor to x first.
func Sqrt(b *Builder, x Value) Value { return sqrt.op.add(b, none{}, x) }

var square = defineUnary(unary{
	Name: "square", Doc: "x², point by point.", Source: "elementary",
	F: func(x, _ float64) float64 { return x * x }, Dx: func(x, _ float64) float64 { return 2 * x },
}, none{})

// Square is x², point by point.
//
// Gradient: 2x·dy.
func Square(b *Builder, x Value) Value { return square.op.add(b, none{}, x) }

var abs = defineUnary(unary{
	Name: "abs", Doc: "|x|, point by point; the derivative at 0 is 0.", Source: "elementary",
	F: func(x, _ float64) float64 { return math.Abs(x) },
	Dx: func(x, _ float64) float64 {
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	},
	Selects: true,
}, none{})

// Abs is |x|, point by point.
//
// Gradient: sign(x)·dy, 0 at 0.
func Abs(b *Builder, x Value) Value { return abs.op.add(b, none{}, x) }

// softplusOf is log(1+eˣ) without overflow, and without loss of precision for
// negative x.
func softplusOf(x, _ float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// sigmoidOf is 1/(1+e⁻ˣ) without overflow.
func sigmoidOf(x, _ float64) float64 {
	e := math.Exp(-math.Abs(x))
	if x >= 0 {
		return 1 / (1 + e)
	}
	return e / (1 + e)
}

var softplus = defineUnary(unary{
	Name: "softplus", Doc: "log(1+eˣ), point by point, accurate for large |x|.",
	Source: "Dugas et al. 2001, NIPS 13, Incorporating second-order functional knowledge",
	F:      softplusOf, Dx: sigmoidOf, Low: -4, High: 4,
}, none{})

// Softplus is log(1+eˣ), point by point: a smooth positive function, used for
// the spread.
//
// Gradient: dy·sigmoid(x).
func Softplus(b *Builder, x Value) Value { return softplus.op.add(b, none{}, x) }

var sigmoid = defineUnary(unary{
	Name: "sigmoid", Doc: "1/(1+e⁻ˣ), point by point.", Source: "NIST DLMF 4.2",
	F: sigmoidOf, Dy: func(y, _ float64) float64 { return y * (1 - y) }, Low: -4, High: 4,
}, none{})

// Sigmoid is 1/(1+e⁻ˣ), point by point.
//
// Gradient: dy·y(1−y).
func Sigmoid(b *Builder, x Value) Value { return sigmoid.op.add(b, none{}, x) }

var tanh = defineUnary(unary{
	Name: "tanh", Doc: "Hyperbolic tangent, point by point.", Source: "NIST DLMF 4.28",
	F: func(x, _ float64) float64 { return math.Tanh(x) }, Dy: func(y, _ float64) float64 { return 1 - y*y },
	Low: -3, High: 3,
}, none{})

// Tanh is the hyperbolic tangent, point by point.
//
// Gradient: dy·(1−y²).
func Tanh(b *Builder, x Value) Value { return tanh.op.add(b, none{}, x) }

var erf = defineUnary(unary{
	Name: "erf", Doc: "Error function 2/√π ∫₀ˣ e^(−t²) dt, point by point.", Source: "NIST DLMF 7.2",
	F:   func(x, _ float64) float64 { return math.Erf(x) },
	Dx:  func(x, _ float64) float64 { return 2 / math.SqrtPi * math.Exp(-x*x) },
	Low: -3, High: 3,
}, none{})

// Erf is the error function 2/√π ∫₀ˣ e^(−t²) dt, point by point.
//
// Gradient: dy·2/√π·e^(−x²).
func Erf(b *Builder, x Value) Value { return erf.op.add(b, none{}, x) }

var addScalar = elementwise(Spec[float64]{
	Name: "add_scalar", Doc: "x + p with a number p, point by point.", Source: "elementary",
	Grad:  func(_ *Builder, _ []Value, _, dy Value, _ float64) []Value { return []Value{dy} },
	Cases: []Case[float64]{{Name: "5-D", In: []Shape{{3, 2, 5, 6, 7}}, A: 0.75}},
}, graph.Scalar{F1: func(x, p float64) float64 { return x + p }})

// AddScalar is x + p, point by point. Gradient: dy.
func AddScalar(b *Builder, x Value, p float64) Value { return addScalar.add(b, p, x) }

var pow = defineUnary(unary{
	Name: "pow", Doc: "max(x, 0)ᵖ with a number p, point by point; value and derivative are 0 for x ≤ 0.",
	Source: "Wang et al. 2003, doi:10.1109/ACSSC.2003.1292216 (exponents of the scales of MS-SSIM)",
	F: func(x, p float64) float64 {
		if x <= 0 {
			return 0
		}
		return math.Pow(x, p)
	},
	Dx: func(x, p float64) float64 {
		if x <= 0 {
			return 0
		}
		return p * math.Pow(x, p-1)
	},
	Low: 0.2, High: 3,
}, 0.2856)

// PowPositive is max(x, 0)ᵖ, point by point.
//
// Gradient: dy·p·xᵖ⁻¹ for x > 0, else 0, also where the true derivative is
// infinite.
func PowPositive(b *Builder, x Value, p float64) Value { return pow.op.add(b, p, x) }

var scale = elementwise(Spec[float64]{
	Name: "scale", Doc: "p·x with a number p, point by point.", Source: "elementary",
	Cases: []Case[float64]{{Name: "5-D", In: []Shape{{3, 2, 5, 6, 7}}, A: -1.5}, {Name: "scalar", In: []Shape{{}}, A: 0.25}},
}, graph.Scalar{F1: func(x, p float64) float64 { return p * x }})

func init() {
	scale.SetGrad(func(b *Builder, _ []Value, _, dy Value, p float64) []Value { return []Value{Scale(b, dy, p)} })
}

// Scale is p·x, point by point. Gradient: p·dy.
func Scale(b *Builder, x Value, p float64) Value { return scale.add(b, p, x) }
