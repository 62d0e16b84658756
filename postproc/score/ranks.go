package score

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// RankHistogram counts the rank of the observation among the members.
//
// Counts [M+1] are numbers of cases. An observation that equals k members is shared
// evenly among the k+1 ranks it may take. Shares [M+1] are the same with area weights,
// adding up to 1. A calibrated ensemble has equal shares. A U shape means too little
// spread, a slope a bias. Low and High [M+1] are the band of a flat histogram, about
// 1/(M+1) and as wide as the bootstrap interval of each share; it includes the
// dependence between neighbouring points. Test counts every date as one case.
//
// Source: Hamill 2001, doi:10.1175/1520-0493(2001)129<0550:IORHFV>2.0.CO;2.
type RankHistogram struct {
	System   string    `json:"system"`
	Variable string    `json:"variable"`
	Level    string    `json:"level"`
	Lead     string    `json:"lead"`
	Region   string    `json:"region"`
	Season   string    `json:"season"`
	Members  int       `json:"members"`
	N        int       `json:"n"`
	Counts   []float64 `json:"counts"`
	Shares   []float64 `json:"shares"`
	Low      []Number  `json:"low"`
	High     []Number  `json:"high"`
	Test     Flatness  `json:"test"`
}

// Flatness measures the deviation of a histogram of K places from a flat one.
//
//	χ² = Σ (n_k−e)²/e,  e = Σn/K
//
// Slope and Convexity are the components of χ² along a line and a parabola over the
// places, with one degree of freedom each. They measure bias and wrong spread. P are the
// probabilities of values at least as large if all places are equally likely and cases
// independent. Distance is Σ |share − 1/K|.
//
// Source: Jolliffe and Primo 2008, doi:10.1175/2007MWR2219.1; Delle Monache et al. 2006,
// doi:10.1029/2005JD006917 (Distance).
type Flatness struct {
	Distance   Number `json:"distance"`
	ChiSquare  Number `json:"chi_square"`
	P          Number `json:"p"`
	Slope      Number `json:"slope"`
	PSlope     Number `json:"p_slope"`
	Convexity  Number `json:"convexity"`
	PConvexity Number `json:"p_convexity"`
}

// TestFlatness tests counts of K ≥ 3 places for flatness. The components of χ² are the squared
// projections of (n_k−e)/√e onto the orthogonal contrasts u and u² − mean(u²), where u is
// the distance from the middle place.
//
// Source: Jolliffe and Primo 2008, doi:10.1175/2007MWR2219.1.
func TestFlatness(counts []float64) Flatness {
	k := len(counts)
	var n float64
	for _, c := range counts {
		n += c
	}
	e := n / float64(k)
	var dist, chi, slope, convexity, slopeNorm, convexityNorm float64
	mid := float64(k-1) / 2
	square := float64(k*k-1) / 12 // mean of (i−mid)²
	for i, c := range counts {
		x := (c - e) / math.Sqrt(e)
		u := float64(i) - mid
		v := u*u - square
		dist += math.Abs(c/n - 1/float64(k))
		chi += x * x
		slope, slopeNorm = slope+x*u, slopeNorm+u*u
		convexity, convexityNorm = convexity+x*v, convexityNorm+v*v
	}
	slope, convexity = slope*slope/slopeNorm, convexity*convexity/convexityNorm
	p := func(x float64, dof int) Number { return Number(mathext.GammaIncRegComp(float64(dof)/2, x/2)) }
	return Flatness{Distance: Number(dist), ChiSquare: Number(chi), P: p(chi, k-1), Slope: Number(slope), PSlope: p(slope, 1), Convexity: Number(convexity), PConvexity: p(convexity, 1)}
}

// FlatBand is the interval that contains each of K shares of n independent cases with
// probability level if all places are equally likely: binomial quantiles divided by n.
// With together all K shares lie in the interval with that probability (Bonferroni:
// 1−(1−level)/K for each).
func FlatBand(n, k int, level float64, together bool) (low, high float64) {
	tail := (1 - level) / 2
	if together {
		tail /= float64(k)
	}
	b := distuv.Binomial{N: float64(n), P: 1 / float64(k)}
	quantile := func(p float64) float64 { // smallest count with CDF ≥ p
		a, z := -1, n
		for z-a > 1 {
			if mid := (a + z) / 2; b.CDF(float64(mid)) >= p {
				z = mid
			} else {
				a = mid
			}
		}
		return float64(z)
	}
	return quantile(tail) / float64(n), quantile(1-tail) / float64(n)
}

// ranks are the shared sums of counts and weights by the rank of the observation among
// M members.
//
// Layout: counts_0…counts_M, weights_0…weights_M.
var ranks = &Sums{
	Size: func(m, _ int) int { return 2 * (m + 1) },
	Add: func(sums []float64, w float64, c *Case) {
		m := len(c.Members)
		addRank(sums[:m+1], sums[m+1:], c.Members, c.Obs, w)
	},
}

// addRank adds one case of weight w to both histograms, divided evenly among the ranks of
// tied members.
func addRank(counts, shares []float64, members []float64, y, w float64) {
	below, equal := 0, 0
	for _, x := range members {
		if x < y {
			below++
		} else if x == y {
			equal++
		}
	}
	part := 1 / float64(equal+1)
	for k := below; k <= below+equal; k++ {
		counts[k] += part
		shares[k] += part * w
	}
}

// RankFlatness is the distance of the rank histogram from a flat one, with area weights:
//
//	Σ_k | share_k − 1/(M+1) |
//
// Unit: none. Better: lower; 0 is flat, but few cases never reach it.
// Source: Delle Monache et al. 2006, doi:10.1029/2005JD006917.
var RankFlatness = &Score{
	ID: "rank_flatness", Name: "distance of the rank histogram from a flat one", Formula: "sum_k |share_k - 1/(M+1)|",
	Doc:    "Calibration of members: distance of the reference's ranks from a uniform distribution; never 0 with few dates.",
	Source: "doi:10.1029/2005JD006917",
	Unit:   Dimensionless, Better: Lower, NoSkillScore: true, Needs: Members, MinMembers: 1, SharedSums: ranks,
	Value: func(mean []float64, m int) float64 { return distanceFromFlat(mean[m+1:]) },
}

// distanceFromFlat is Σ |share − 1/K| of K weights, which are divided by their sum.
func distanceFromFlat(weights []float64) float64 {
	var total, sum float64
	for _, v := range weights {
		total += v
	}
	for _, v := range weights {
		sum += math.Abs(v/total - 1/float64(len(weights)))
	}
	return sum
}
