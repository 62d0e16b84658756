package simd

import "fmt"

// Lanes is the number of points that NormalSums processes together, MaxTerms the largest
// number of coefficients.
const (
	Lanes    = 16
	MaxTerms = 8
	// SumRows is the number of rows that NormalSums fills: value, count, gradient and the lower
	// triangle of the second derivatives.
	SumRows = 2 + MaxTerms + MaxTerms*(MaxTerms+1)/2
)

// Link is the function from the linear predictor η = θ_k + θ_{k+1}·spread to the scale.
type Link int

// The links: scale = η, scale² = η, log scale = η.
const (
	Linear Link = iota
	Quadratic
	Log
)

// NormalSums fills, for Lanes neighbouring points, the mean CRPS over dates of
//
//	N(mu, sigma²),  mu = θ₀ + θ₁·anomaly + Σ θ_{2+h}·season_h,  sigma = link(θ_k, θ_{k+1}; spread)
//
// the number of dates, and the first and second derivatives of the mean with respect to
// the coefficients θ (second derivatives as the lower triangle, row by row). It returns
// false, with out unchanged, if there is no kernel.
//
// Shape: out [SumRows][Lanes], gradient from row 2, second derivatives from row 2+MaxTerms;
// theta [MaxTerms][Lanes], of which 4 + H are used; season [date][H], H 0, 2 or 4; the
// fields [date][Lanes].
// Missing: a date whose obs is NaN is left out at its point, whatever the others hold; a
// point without dates gets NaN.
// Errors: panics for wrong shapes. Accuracy: about 1e-15 for a score near 1.
// Source: as dist.NormalCRPS and dist.NormalCRPSCurvature.
func NormalSums(out, theta, season []float64, anomaly, spread, obs []float32, link Link) bool {
	dates := len(obs) / Lanes
	if dates == 0 || len(obs)%Lanes != 0 || len(anomaly) != len(obs) || len(spread) != len(obs) ||
		len(season) != 0 && len(season) != 2*dates && len(season) != 4*dates ||
		len(out) != SumRows*Lanes || len(theta) != MaxTerms*Lanes || link < Linear || link > Log {
		panic(fmt.Sprintf("simd: wrong shapes: out %d for %d lanes, theta %d, anomaly %d, spread %d, obs %d, season %d", len(out), Lanes, len(theta), len(anomaly), len(spread), len(obs), len(season)))
	}
	return normalSums(out, theta, season, anomaly, spread, obs, dates, link)
}
