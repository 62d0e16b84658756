package dist

import (
	"math"
	"slices"
)

// CrossPairCRPSGrad is the CRPS of two groups of members, of which the first has first
// members. Its spread term has only the pairs across the groups (A and B members, M = A+B):
//
//	(1/M) Σᵢ|xᵢ−y| − 1/(2·A·B) Σ_{a<first} Σ_{b≥first} |x_a−x_b|
//
// It fills dx with the derivatives with respect to the members. If the groups were
// calibrated separately, pairs across are conditionally independent, so dependence within a
// group does not improve the score. Where values are equal, a derivative is the mean of
// both one-sided derivatives.
//
// Shape: x and dx [member], 1 ≤ first < M; dx may be nil; x is unchanged.
// Unit: that of y. Missing: NaN gives NaN. Cost: O(M²); no allocation.
// Source: Roberts 2026, arXiv:2602.15830 (why fair scores reward coupled members).
func CrossPairCRPSGrad(dx, x []float64, first int, y float64) float64 {
	m, a, b := float64(len(x)), float64(first), float64(len(x)-first)
	var toObs, between float64
	for i, v := range x {
		toObs += math.Abs(v - y)
		others := x[first:]
		if i >= first {
			others = x[:first]
		}
		for _, w := range others {
			between += math.Abs(v-w) / 2 // every pair is visited twice
		}
		if dx == nil {
			continue
		}
		dx[i] = sign(v, y) / m
		for _, w := range others {
			dx[i] -= sign(v, w) / (2 * a * b)
		}
	}
	score := toObs/m - between/(2*a*b)
	if y != y || slices.ContainsFunc(x, math.IsNaN) { // an infinite member has derivatives, though the score is NaN
		for i := range dx {
			dx[i] = math.NaN()
		}
	}
	return score
}
