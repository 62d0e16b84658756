package dist

import "math"

// invSqrtPi is 1/√π, the expected CRPS of N(0,1) for its own draws.
const invSqrtPi = 0.56418958354775628694807945156077258584405062932900

// NormalPDF is the density of the standard normal distribution, φ(z) = exp(−z²/2)/√(2π).
func NormalPDF(z float64) float64 {
	const invSqrt2Pi = 0.39894228040143267793994605993438186847585863116493
	return invSqrt2Pi * math.Exp(-0.5*z*z)
}

// NormalCDF is the distribution function Φ(z) of the standard normal distribution. It is
// accurate relative to its value in the lower tail, down to z = −37.
func NormalCDF(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }

// NormalQuantile is the inverse of NormalCDF: −Inf at 0, +Inf at 1, NaN outside [0, 1]. It
// is accurate in the lower tail: the initial value is improved by Newton steps on log Φ.
func NormalQuantile(p float64) float64 {
	if p > 0.5 {
		return -NormalQuantile(1 - p)
	}
	z := -math.Sqrt2 * math.Erfcinv(2*p)
	if p == 0 || math.IsNaN(z) || p == 0.5 {
		return z
	}
	if p < 1e-9 { // where Erfcinv has lost its digits: Φ(z) ≈ φ(z)/|z|
		t := -2 * math.Log(p)
		z = -math.Sqrt(t - math.Log(2*math.Pi*t))
	}
	for range 4 {
		c := NormalCDF(z)
		z -= math.Log(c/p) * c / NormalPDF(z)
	}
	return z
}

// NormalCRPS is the CRPS of N(mu, sigma²) for y with its derivatives. With
// z = (y−mu)/sigma:
//
//	crps   = sigma [ z (2Φ(z)−1) + 2φ(z) − 1/√π ]
//	dmu    = 1 − 2Φ(z)
//	dsigma = 2φ(z) − 1/√π
//
// It is computed as (mu−y)·dmu + sigma·dsigma, by Euler's theorem for homogeneous
// functions of degree one. This form has no cancellation for sigma → 0, where the score is
// |mu−y|. For mu = y and sigma = 0 the score and dmu are 0.
//
// Unit: that of y. Missing: NaN in gives NaN; sigma < 0 gives NaN.
// Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1, eq. 5.
func NormalCRPS(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	d := mu - y
	if !(sigma >= 0) || math.IsNaN(d) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	var t float64 // −z; 0 for y = mu, also at sigma 0
	if d != 0 {
		t = d / sigma
	}
	dmu = math.Erf(t / math.Sqrt2)
	dsigma = 2*NormalPDF(t) - invSqrtPi
	crps = sigma * dsigma
	if d != 0 {
		crps += d * dmu
	}
	return crps, dmu, dsigma
}

// NormalCRPSCurvature computes, from the dsigma that NormalCRPS returned, the factor
// k = 2φ(z)/sigma of the second derivatives of the score:
//
//	∂²/∂mu² = k,  ∂²/∂mu∂sigma = k z,  ∂²/∂sigma² = k z²
//
// The matrix is positive semidefinite: the score is convex in (mu, sigma).
func NormalCRPSCurvature(dsigma, sigma float64) float64 { return (dsigma + invSqrtPi) / sigma }

// normalUnit holds the moments of the standard normal distribution.
var normalUnit = Moments{Std: 1}

// Normal is the family of normal distributions N(mu, sigma²).
//
//	F(x) = Φ((x−mu)/sigma)
//
// Parameters: mu, sigma. Source: Gneiting et al. 2005, doi:10.1175/MWR2904.1 (CRPS).
var Normal = guard(withExcess(locationScale("normal", "normal", StandardForm{CDF: NormalCDF, Quantile: NormalQuantile, CRPS: NormalCRPS, Moments: normalUnit,
	HalfMeanDifference: func(sigma float64) float64 { return sigma / math.Sqrt(math.Pi) }}), CensoredNormal, -1, 0))
