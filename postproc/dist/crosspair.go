package dist

import "math"

// CrossPairCRPSGrad is the CRPS of two groups of members that were calibrated apart, the
// first of x and the others, its spread taken between the groups only,
//
//	(1/M) Σᵢ|xᵢ−y| − 1/(2·A·B) Σ_{a<first} Σ_{b≥first} |x_a−x_b|
//
// and its derivative to every member. Pairs across are conditionally independent, so members
// of one group gain nothing by knowing of each other. Where values are equal, the mean
// of both sides is taken.
//
// Shape: x and dx [member], 1 ≤ first < M; dx is filled, or nil where no derivative is wanted; x is left as it is.
// Missing: NaN gives NaN. Cost: O(M²); no allocation.
// Source: Roberts 2026, arXiv:2602.15830 (why fair scores reward coupled members).
func CrossPairCRPSGrad(dx, x []float64, first int, y float64) float64 {
	m, a, b := float64(len(x)), float64(first), float64(len(x)-first)
	var near, between float64
	for i, v := range x {
		near += math.Abs(v - y)
		others := x[first:]
		if i >= first {
			others = x[:first]
		}
		for _, w := range others {
			between += math.Abs(v-w) / 2 // every pair is met twice
		}
		if dx == nil {
			continue
		}
		dx[i] = sign(v-y) / m
		for _, w := range others {
			dx[i] -= sign(v-w) / (2 * a * b)
		}
	}
	score := near/m - between/(2*a*b)
	if math.IsNaN(score) {
		for i := range dx {
			dx[i] = score
		}
	}
	return score
}
