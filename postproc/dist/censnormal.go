package dist

import "math"

// CensoredNormalCDF is the distribution function at x of max(X, 0), X ~ N(mu, sigma²).
func CensoredNormalCDF(mu, sigma, x float64) float64 {
	if x < 0 {
		return 0
	}
	return NormalCDF((x - mu) / sigma)
}

// CensoredNormalQuantile is the p quantile of max(X, 0), X ~ N(mu, sigma²).
func CensoredNormalQuantile(mu, sigma, p float64) float64 {
	return max(0, mu+sigma*NormalQuantile(p))
}

// CensoredNormalCRPS is the CRPS of max(X, 0) for y, X ~ N(mu, sigma²), with its
// derivatives. With z = (max(y,0)−mu)/sigma and l = −mu/sigma:
//
//	crps   = sigma g + max(−y, 0),  g = z(2Φ(z)−1) + 2φ(z) − 1/√π − I(l)
//	I(l)   = ∫_{−∞}^l Φ² = lΦ(l)² + 2φ(l)Φ(l) − Φ(√2 l)/√π
//	dmu    = −(g_z + g_l),  dsigma = g − z g_z − l g_l
//	g_z    = 2Φ(z) − 1,  g_l = −Φ(l)²
//
// Unit: that of y. Missing: NaN in gives NaN; sigma < 0 gives NaN; sigma = 0 is the
// point mass at max(mu, 0).
// Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
func CensoredNormalCRPS(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	return nonNegativeCRPS(mu, sigma, y, NormalCRPS, censoredNormal)
}

// censoredNormal is CensoredNormalCRPS for sigma > 0 and y ≥ 0.
func censoredNormal(mu, sigma, y float64) (crps, dmu, dsigma float64) {
	l, z := -mu/sigma, (y-mu)/sigma
	f := NormalCDF(l)
	gz, gl := math.Erf(z/math.Sqrt2), -f*f
	var g float64
	if l <= 0 {
		g = z*gz + 2*NormalPDF(z) - invSqrtPi - (l*f*f + 2*NormalPDF(l)*f - invSqrtPi*NormalCDF(math.Sqrt2*l))
	} else { // little mass above 0: g = (z−l) − 2∫_l^z Q + ∫_l^∞ Q² with Q = 1−Φ, without cancellation
		q := NormalCDF(-l)
		tail := func(x float64) float64 { return NormalPDF(x) - x*NormalCDF(-x) }
		square := 2*NormalPDF(l)*q - l*q*q - invSqrtPi*NormalCDF(-math.Sqrt2*l)
		g = y/sigma - 2*(tail(l)-tail(z)) + square
	}
	return sigma * g, -(gz + gl), g - z*gz - l*gl
}

// CensoredNormal is the family of normal distributions censored at 0: max(X, 0) with X ~
// N(mu, sigma²), for precipitation.
//
//	F(x) = Φ((x−mu)/sigma),  x ≥ 0
//
// Parameters: mu, sigma of the parent. Source: Jordan, Krüger and Lerch 2019, doi:10.18637/jss.v090.i12.
var CensoredNormal = guard(func() *Family {
	f := nonNegative(twoParameters("censored_normal", "normal censored at 0", CensoredNormalCDF, CensoredNormalQuantile, CensoredNormalCRPS), normalUnit, censoredNormalMoments)
	f.quantileFunc = func(p float64) func(par []float64) float64 {
		z := NormalQuantile(p)
		return func(par []float64) float64 { return max(0, par[0]+par[1]*z) }
	}
	return withExcess(f, nil, -1, 0)
}())
