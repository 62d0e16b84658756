package dist

import "math"

// LogisticCDF is the distribution function 1/(1+exp(−z)) of the standard logistic
// distribution, with mean 0 and standard deviation π/√3.
func LogisticCDF(z float64) float64 {
	if z < 0 {
		e := math.Exp(z)
		return e / (1 + e)
	}
	return 1 / (1 + math.Exp(-z))
}

// LogisticQuantile is the inverse of LogisticCDF, log(p/(1−p)): −Inf at 0, +Inf
// at 1, NaN outside [0, 1].
func LogisticQuantile(p float64) float64 { return math.Log(p) - math.Log1p(-p) }

// LogisticCRPS is the CRPS of the logistic distribution with location mu and scale s for y,
// with its derivatives. With z = (y−mu)/s:
//
//	crps = s [ |z| + 2 log(1+exp(−|z|)) − 1 ]
//	dmu  = −tanh(z/2),  ds = 2 log(1+exp(−|z|)) − 1 + |z| (1 − tanh(|z|/2))
//
// Unit: that of y. Missing: NaN in gives NaN; s < 0 gives NaN; s = 0 is the
// point mass at mu.
// Source: Taillardat et al. 2016, doi:10.1175/MWR-D-15-0260.1, appendix.
func LogisticCRPS(mu, s, y float64) (crps, dmu, ds float64) {
	d := y - mu
	if !(s >= 0) || math.IsNaN(d) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	var z float64 // 0 for y = mu, also at scale 0
	if d != 0 {
		z = d / s
	}
	a := math.Abs(z)
	e := math.Exp(-a)
	log := 2*math.Log1p(e) - 1
	tail := 0.0 // |z| (1 − tanh(|z|/2)), which tends to 0
	if e != 0 {
		tail = 2 * a * e / (1 + e)
	}
	return math.Abs(d) + s*log, -math.Tanh(z / 2), log + tail
}

// logisticTail returns the upper tail Q of the standard logistic distribution at z, and its
// integral K:
//
//	Q = 1/(1+exp(z)),  K = ∫_z^∞ Q = log(1+exp(−z));  ∫_z^∞ Q² = K − Q
func logisticTail(z float64) (q, k float64) {
	if z > 0 {
		e := math.Exp(-z)
		return e / (1 + e), math.Log1p(e)
	}
	e := math.Exp(z)
	return 1 / (1 + e), math.Log1p(e) - z
}

// logisticUnit holds the moments of the standard logistic distribution.
var logisticUnit = Moments{Std: LogisticStd}

// Logistic is the family of logistic distributions.
//
//	F(x) = 1/(1+exp(−(x−mu)/sigma))
//
// Parameters: mu, sigma (scale). Source: Taillardat et al. 2016, doi:10.1175/MWR-D-15-0260.1 (CRPS).
var Logistic = guard(withExcess(locationScale("logistic", "logistic", StandardForm{CDF: LogisticCDF, Quantile: LogisticQuantile, CRPS: LogisticCRPS, Moments: logisticUnit,
	HalfMeanDifference: func(s float64) float64 { return s }}), CensoredLogistic, -1, 0))
