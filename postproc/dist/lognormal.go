package dist

import "math"

// LogNormalCDF is the distribution function at x of exp(X), X ~ N(mu, sigma²).
func LogNormalCDF(mu, sigma, x float64) float64 {
	if x <= 0 {
		return 0
	}
	return NormalCDF((math.Log(x) - mu) / sigma)
}

// LogNormalQuantile is the p quantile of exp(X), X ~ N(mu, sigma²).
func LogNormalQuantile(mu, sigma, p float64) float64 {
	return math.Exp(mu + sigma*NormalQuantile(p))
}

// LogNormalFromMoments returns the parameters of the log-normal distribution with mean
// m > 0 and standard deviation s:
//
//	sigma² = log(1 + s²/m²),  mu = log m − sigma²/2
func LogNormalFromMoments(m, s float64) (mu, sigma float64) {
	v := math.Log1p(s / m * (s / m))
	return math.Log(m) - v/2, math.Sqrt(v)
}

// LogNormalCRPS is the CRPS of exp(X), X ~ N(mu, sigma²), for y, with its derivatives.
// With z = (log y − mu)/sigma and E = exp(mu+sigma²/2):
//
//	crps   = y (2Φ(z)−1) − 2E A,  A = Φ(sigma/√2) − Φ(sigma−z)
//	dmu    = −2E A
//	dsigma = −2E sigma A − √2 E φ(sigma/√2) + 2 y φ(z)
//
// For y ≤ 0 the score is that at 0 plus the distance |y|.
//
// Unit: that of y; mu and sigma are those of its logarithm. Missing: NaN in gives
// NaN; sigma < 0 gives NaN; sigma = 0 is the point mass at exp(mu).
// Source: Baran and Lerch 2015, doi:10.1002/qj.2521.
func LogNormalCRPS(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	if !(sigma >= 0) || math.IsNaN(mu) || math.IsNaN(y) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	if sigma == 0 {
		m := math.Exp(mu)
		crps, dmu, dsigma = NormalCRPS(m, 0, y)
		return crps, m * dmu, m * dsigma
	}
	e := math.Exp(mu + sigma*sigma/2)
	z, density := math.Inf(-1), 0.0
	if y > 0 {
		z = (math.Log(y) - mu) / sigma
		density = 2 * y * NormalPDF(z)
	}
	a := NormalCDF(sigma/math.Sqrt2) - NormalCDF(sigma-z)
	crps = y*math.Erf(z/math.Sqrt2) - 2*e*a
	return crps, -2 * e * a, -2*e*sigma*a - math.Sqrt2*e*NormalPDF(sigma/math.Sqrt2) + density
}

// LogNormal is the family of log-normal distributions: exp(X), X ~ N(mu, sigma²).
//
// Parameters: mu, sigma of the logarithm. Source: Baran and Lerch 2015, doi:10.1002/qj.2521.
var LogNormal = guard(&Family{ID: "log_normal", Name: "log-normal", Parameters: []string{"mu", "sigma"}, Roles: []Role{LogLocation, Invariant}, Positive: true,
	CDF:      func(par []float64, x float64) float64 { return LogNormalCDF(par[0], par[1], x) },
	Quantile: func(par []float64, p float64) float64 { return LogNormalQuantile(par[0], par[1], p) },
	CRPS: func(grad, par []float64, y float64) float64 {
		crps, dmu, dsigma := LogNormalCRPS(par[0], par[1], y)
		return fillGradient(grad, crps, dmu, dsigma)
	},
	Moments:   logNormalMoments,
	shortcuts: shortcuts{setMoments: func(par []float64, mean, std float64) { par[0], par[1] = LogNormalFromMoments(mean, std) }}})
