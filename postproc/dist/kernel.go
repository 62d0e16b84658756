package dist

import (
	"math"
	"slices"
)

// Fairness sets the weight of the members' mutual distances in the kernel CRPS:
// the ε of
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|
//
// for M members.
type Fairness func(members int) (epsilon float64)

// Plain is the CRPS of the members' empirical distribution, ε = 1/M (the second
// term becomes 1/(2M²) ΣᵢΣⱼ). It gets lower as members are added.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
func Plain(members int) float64 { return 1 / float64(members) }

// Fair makes the expectation independent of M for members that are independent
// draws, ε = 0; single values may be negative. It needs M ≥ 2.
// Source: Ferro 2014, doi:10.1002/qj.2270.
func Fair(int) float64 { return 0 }

// AlmostFair mixes both, α·fair + (1−α)·plain: ε = (1−α)/M. With it the loss
// still feels every member where M−1 of them coincide with y.
// Source: Lang et al. 2024, arXiv:2412.15832.
func AlmostFair(alpha float64) Fairness {
	return func(members int) float64 { return (1 - alpha) / float64(members) }
}

// KernelCRPS is the CRPS of M members x against y,
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|,   ε = f(M)
//
// Shape: x [member], M ≥ 1 for Plain, M ≥ 2 otherwise (NaN if not).
// Unit: that of y. Missing: NaN in gives NaN.
// Cost: O(M log M); sorts x in place, so that ΣᵢΣⱼ|xᵢ−xⱼ| = 2 Σₖ(2k−M+1)xₖ.
func KernelCRPS(x []float64, y float64, f Fairness) float64 {
	n := len(x)
	slices.Sort(x)
	m := float64(n)
	var dist, spread float64
	for k, v := range x {
		dist += math.Abs(v - y)
		spread += (2*float64(k) - m + 1) * (v - y) // y shifts nothing, but keeps digits
	}
	return dist/m - pairWeight(n, f)*2*spread
}

// KernelCRPSGrad is KernelCRPS with its derivative to every member. Where a
// member equals y or other members, the mean of both sides is taken.
//
//	∂/∂xᵢ = (1/M) [ sign(xᵢ−y) − (1−ε)/(M−1) Σⱼ sign(xᵢ−xⱼ) ]
//
// Shape: x and dx [member]; dx is filled, x is left as it is.
// Cost: O(M²); no allocation. The value is a sum of terms that for M ≥ 2 are
// none below zero, |xᵢ−y| + |xⱼ−y| − (1−ε)|xᵢ−xⱼ|, so nothing cancels.
func KernelCRPSGrad(dx, x []float64, y float64, f Fairness) float64 {
	n := len(x)
	m := float64(n)
	if n == 1 {
		dx[0] = sign(x[0]-y) + pairWeight(1, f)
		return math.Abs(x[0]-y) + pairWeight(1, f)
	}
	w := pairWeight(n, f) // of |xᵢ−xⱼ| in the double sum
	share := 1 / (m - 1)  // of |xᵢ−y| in each of its M−1 pairs
	var sum float64       // over pairs i<j of both directions
	for i, a := range x {
		var s float64
		for j, b := range x {
			s += sign(a - b)
			if j > i {
				sum += share*(math.Abs(a-y)+math.Abs(b-y))/m - 2*w*math.Abs(a-b)
			}
		}
		dx[i] = sign(a-y)/m - 2*w*s
	}
	return sum
}

// pairWeight is (1−ε)/(2M(M−1)). One member has no pairs: weight 0 under Plain,
// and NaN where the score needs two.
func pairWeight(n int, f Fairness) float64 {
	m, eps := float64(n), f(n)
	if n == 1 {
		if eps == 1 {
			return 0
		}
		return math.NaN()
	}
	return (1 - eps) / (2 * m * (m - 1))
}

// sign is −1, 0, 1, or NaN.
func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	default:
		return v // 0 or NaN
	}
}

// HalfMeanDifference is half the mean distance between two of M ≥ 2 members,
//
//	Σᵢⱼ|xᵢ−xⱼ| / (2M(M−1))
//
// the mean fair CRPS where y is one more of them. Below two members it is NaN.
//
// Shape: x [member]. Unit: that of x. Missing: NaN in gives NaN. Cost: sorts x in place.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
func HalfMeanDifference(x []float64) float64 {
	slices.Sort(x)
	m := float64(len(x))
	var sum float64
	for k, v := range x {
		sum += (2*float64(k) - m + 1) * (v - x[0]) // x[0] shifts nothing, but keeps digits
	}
	return sum / (m * (m - 1))
}
