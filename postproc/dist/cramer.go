package dist

import "math"

// NormalCramer is the Cramér distance of two normal distributions, the integral of the
// squared difference of their distribution functions, with its derivatives with respect to
// the first, N(mu, sigma²). With s² = sigma² + sigma2² and z = (mu − mu2)/s:
//
//	d      = s [ z (2Φ(z)−1) + 2φ(z) ] − (sigma + sigma2)/√π
//	dmu    = 2Φ(z) − 1
//	dsigma = 2φ(z) sigma/s − 1/√π
//
// It equals E|X−Y| − E|X−X′|/2 − E|Y−Y′|/2. If observations follow the second distribution,
// it is the expected CRPS of the first minus that of the second, so it has the same
// gradient as the expected CRPS. It is computed from the CRPS of N(mu, s²) for mu2.
//
// Unit: that of mu. Better: lower; 0 for equal distributions only.
// Missing: NaN in gives NaN; sigma < 0 or sigma2 < 0 gives NaN.
// Source: Székely and Rizzo 2013, doi:10.1016/j.jspi.2013.03.018, for the energy form; Thorarinsdottir, Gneiting and Gissibl
// 2013, doi:10.1137/130907550, for its use as a divergence between forecasts.
func NormalCramer(mu, sigma, mu2, sigma2 float64) (d, dmu, dsigma float64) {
	if !(sigma >= 0) || !(sigma2 >= 0) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	s := math.Hypot(sigma, sigma2)
	crps, dmu, ds := NormalCRPS(mu, s, mu2)
	var share float64 // ds/dsigma
	if s > 0 {
		share = sigma / s
	}
	return crps + (s-sigma-sigma2)*invSqrtPi, dmu, (ds+invSqrtPi)*share - invSqrtPi
}
