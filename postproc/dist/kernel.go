package dist

import (
	"math"
	"slices"
)

// Fairness returns the ε of the kernel CRPS of M members, which weights the distances
// between members:
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|
type Fairness func(members int) (epsilon float64)

// Plain is the CRPS of the empirical distribution of the members: ε = 1/M, so the pair term
// is 1/(2M²) ΣᵢΣⱼ. Its expectation decreases with M.
//
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
func Plain(members int) float64 { return 1 / float64(members) }

// Fair is the fair CRPS: ε = 0. Its expectation does not depend on M if the members are
// independent draws. Single values may be negative. It needs M ≥ 2.
//
// Source: Ferro 2014, doi:10.1002/qj.2270.
func Fair(int) float64 { return 0 }

// AlmostFair is the mixture α·fair + (1−α)·plain: ε = (1−α)/M. The fair CRPS has no gradient
// for one member if all others equal y; the mixture has.
//
// Source: Lang et al. 2024, arXiv:2412.15832.
func AlmostFair(alpha float64) Fairness {
	return func(members int) float64 { return (1 - alpha) / float64(members) }
}

// KernelCRPS is the CRPS of M members x for y,
//
//	(1/M) Σᵢ|xᵢ−y| − (1−ε)/(2M(M−1)) ΣᵢΣⱼ|xᵢ−xⱼ|,   ε = f(M)
//
// Shape: x [member], M ≥ 1 for Plain, M ≥ 2 otherwise (NaN if not).
// Unit: that of y. Missing: NaN in gives NaN.
// Cost: O(M log M); sorts x in place, since then ΣᵢΣⱼ|xᵢ−xⱼ| = 2 Σₖ(2k−M+1)xₖ, k from 0.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437; of ε, see Fairness.
func KernelCRPS(x []float64, y float64, f Fairness) float64 {
	n := len(x)
	slices.Sort(x)
	m := float64(n)
	var dist, spread float64
	for k, v := range x {
		dist += math.Abs(v - y)
		spread += (2*float64(k) - m + 1) * (v - y) // the factors add up to 0: subtracting y avoids cancellation
	}
	return dist/m - pairWeight(n, f)*2*spread
}

// KernelCRPSGrad is KernelCRPS with its derivatives with respect to the members,
//
//	∂/∂xᵢ = (1/M) [ sign(xᵢ−y) − (1−ε)/(M−1) Σⱼ sign(xᵢ−xⱼ) ]
//
// Where a member equals y or another member, sign(0) = 0 gives the mean of both one-sided
// derivatives.
//
// The value is a sum of the non-negative terms |xᵢ−y| + |xⱼ−y| − (1−ε)|xᵢ−xⱼ|, so there is
// no cancellation.
//
// Shape: x and dx [member]; dx is filled, x is unchanged.
// Unit: that of y. Missing: NaN in gives NaN. Cost: O(M²); no allocation.
// Source: as KernelCRPS.
func KernelCRPSGrad(dx, x []float64, y float64, f Fairness) float64 {
	n := len(x)
	m := float64(n)
	if n == 1 {
		dx[0] = sign(x[0], y) + pairWeight(1, f)
		return math.Abs(x[0]-y) + pairWeight(1, f)
	}
	w := pairWeight(n, f) // of |xᵢ−xⱼ| in the double sum
	share := 1 / (m - 1)  // of |xᵢ−y| in each of its M−1 pairs
	var sum float64       // over pairs i<j of both directions
	for i, a := range x {
		var s float64
		for j, b := range x {
			s += sign(a, b)
			if j > i {
				sum += share*(math.Abs(a-y)+math.Abs(b-y))/m - 2*w*math.Abs(a-b)
			}
		}
		dx[i] = sign(a, y)/m - 2*w*s
	}
	return sum
}

// pairWeight is (1−ε)/(2M(M−1)). A single member has no pairs: the weight is 0 for Plain,
// and NaN for scores that need two.
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

// sign is the sign of a − b, also for infinite values: −1, 0 or 1; NaN if one is NaN.
func sign(a, b float64) float64 {
	switch {
	case a > b:
		return 1
	case a < b:
		return -1
	case a == b:
		return 0
	}
	return math.NaN()
}

// HalfMeanDifference is half the mean difference of M ≥ 2 members,
//
//	Σᵢⱼ|xᵢ−xⱼ| / (2M(M−1))
//
// an estimate of ½E|X−X'|: the expected fair CRPS if y is exchangeable with the members.
//
// Shape: x [member]. Unit: that of x.
// Missing: NaN in gives NaN, as do fewer than two members. Cost: sorts x in place.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
func HalfMeanDifference(x []float64) float64 {
	slices.Sort(x)
	m := float64(len(x))
	var sum float64
	for k, v := range x {
		sum += (2*float64(k) - m + 1) * (v - x[0]) // the factors add up to 0: subtracting x[0] avoids cancellation
	}
	return sum / (m * (m - 1))
}
