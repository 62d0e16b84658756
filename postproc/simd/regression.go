package simd

import "fmt"

// What NormalSums takes side by side, and how many coefficients at most.
const (
	Lanes    = 16
	MaxTerms = 8
	// SumRows is the number of rows that NormalSums fills: value, count, gradient and the
	// lower triangle of the curvature.
	SumRows = 2 + MaxTerms + MaxTerms*(MaxTerms+1)/2
)

// Link says how the scale of a regression follows η = θ_k + θ_{k+1}·spread.
type Link int

// The links: scale = η, scale² = η, log scale = η.
const (
	Linear Link = iota
	Quadratic
	Log
)

// NormalSums fills, for Lanes points side by side, the mean CRPS of
//
//	N(mu, sigma²),  mu = θ₀ + θ₁·anomaly + Σ θ_{2+h}·season_h,  sigma = link(θ_k, θ_{k+1}; spread)
//
// over the dates, the number of dates, and the first and second derivatives of that mean
// by the coefficients θ (second ones as the lower triangle, row by row). False says that
// there are no kernels, and out is as it was: the caller has loops that judge them.
//
// Shape: out [SumRows][Lanes], gradient from row 2, curvature from row 2+MaxTerms; theta
// [MaxTerms][Lanes], of which 4 + H count; season [date][H], H 0, 2 or 4; the fields
// [date][Lanes].
// Missing: a date whose obs is NaN does not count at its point, whatever the others hold;
// a point without dates gets NaN. Error: some 1e-15 of a score near 1.
// Source: as dist.NormalCRPS and dist.NormalCRPSCurvature.
func NormalSums(out, theta, season []float64, anomaly, spread, obs []float32, link Link) bool {
	dates := len(obs) / Lanes
	if dates == 0 || len(obs)%Lanes != 0 || len(anomaly) != len(obs) || len(spread) != len(obs) ||
		len(season) != 0 && len(season) != 2*dates && len(season) != 4*dates ||
		len(out) != SumRows*Lanes || len(theta) != MaxTerms*Lanes || link < Linear || link > Log {
		panic(fmt.Sprintf("simd: sums of %d by %d with %d coefficients over %d, %d, %d cases and %d terms of the season", len(out), Lanes, len(theta), len(anomaly), len(spread), len(obs), len(season)))
	}
	return normalSums(out, theta, season, anomaly, spread, obs, dates, link)
}
