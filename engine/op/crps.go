package op

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// crpsCases are the shapes with which the CRPS is tested.
var crpsCases = []Case[none]{
	{Name: "5-D", In: []Shape{{2, 3, 5, 6, 7}, {2, 3, 5, 6, 7}, {2, 3, 5, 6, 7}}, Low: 0.3, High: 2},
	{Name: "one sigma", In: []Shape{{2, 1, 5, 6}, {1, 1, 1, 1}, {2, 1, 5, 6}}, Low: 0.3, High: 2},
}

// crpsSource is the source of all operations in this file.
const crpsSource = "Gneiting et al. 2005, doi:10.1175/MWR2904.1, equation 5; postproc/dist"

// gaussianCRPS is the CRPS of a normal distribution. Closed-form derivatives
// are operations of their own, so that the backward pass does not differentiate
// Φ and φ.
var gaussianCRPS = elementwise(Spec[none]{
	Name:   "gaussian_crps",
	Doc:    "CRPS of the normal distribution (mu, sigma) against y, point by point, broadcast.",
	Source: crpsSource,
	Grad: func(b *Builder, in []Value, _, dy Value, _ none) []Value {
		dmu := Mul(b, dy, gaussianCRPSdMu.add(b, none{}, in...))
		dsigma := Mul(b, dy, gaussianCRPSdSigma.add(b, none{}, in...))
		return []Value{
			SumTo(b, dmu, in[0].Shape()),
			SumTo(b, dsigma, in[1].Shape()),
			SumTo(b, Scale(b, dmu, -1), in[2].Shape()),
		}
	},
	FLOPs: func(_ []Shape, out Shape, _ none) int64 { return 60 * int64(out.Size()) },
	Cases: crpsCases,
}, graph.Scalar{F3: func(mu, sigma, y, _ float64) float64 {
	c, _, _ := dist.NormalCRPS(mu, sigma, y)
	return c
}})

// gaussianCRPSdMu is the derivative with respect to the mean, 1 − 2Φ(z), z = (y
// − mu)/sigma.
var gaussianCRPSdMu = elementwise(Spec[none]{
	Name:   "gaussian_crps_dmu",
	Doc:    "Derivative of gaussian_crps with respect to mu, 1 − 2Φ((y−mu)/sigma); the derivative with respect to y is its negative.",
	Source: crpsSource,
	NoGrad: noSecondOrder,
	FLOPs:  func(_ []Shape, out Shape, _ none) int64 { return 60 * int64(out.Size()) },
	Cases:  crpsCases,
}, graph.Scalar{F3: func(mu, sigma, y, _ float64) float64 {
	_, d, _ := dist.NormalCRPS(mu, sigma, y)
	return d
}})

// gaussianCRPSdSigma is the derivative with respect to the standard deviation,
// 2φ(z) − 1/√π.
var gaussianCRPSdSigma = elementwise(Spec[none]{
	Name:   "gaussian_crps_dsigma",
	Doc:    "Derivative of gaussian_crps with respect to sigma, 2φ((y−mu)/sigma) − 1/√π.",
	Source: crpsSource,
	NoGrad: noSecondOrder,
	FLOPs:  func(_ []Shape, out Shape, _ none) int64 { return 60 * int64(out.Size()) },
	Cases:  crpsCases,
}, graph.Scalar{F3: func(mu, sigma, y, _ float64) float64 {
	_, _, d := dist.NormalCRPS(mu, sigma, y)
	return d
}})

// GaussianCRPS is the continuous ranked probability score of the normal
// distribution with mean mu and standard deviation sigma against y, point by
// point:
//
//	σ·[z(2Φ(z) − 1) + 2φ(z) − 1/√π],   z = (y − μ)/σ
//
// Shape: mu, sigma, y, broadcast.
// Unit: that of y. Better: lower.
// Missing: sigma < 0 gives NaN; sigma = 0 gives |mu − y|.
// Gradient: closed form, to all three: 1 − 2Φ(z) to mu, 2φ(z) − 1/√π to sigma,
// 2Φ(z) − 1 to y.
// Errors: ErrShape.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1, equation 5. The formula
// is implemented in postproc/dist.
func GaussianCRPS(b *Builder, mu, sigma, y Value) Value {
	return gaussianCRPS.add(b, none{}, mu, sigma, y)
}
