package score

import "math"

// EnergyScore is the energy score of M vectors against one, with the distance
// |a−b| = √( Σ_p w_p (a_p−b_p)² / Σ_p w_p ):
//
//	(1/M) Σᵢ |xᵢ−y| − c ΣᵢΣⱼ |xᵢ−xⱼ|,  c = 1/(2M²), fair 1/(2M(M−1))
//
// In one dimension it is the CRPS. The common definition without division by the sum of
// weights is √dimension times this one for equal weights.
//
// Shape: x [member][dimension], y and w [dimension]; w nil: equal weights.
// Unit: that of y. Better: lower. Missing: NaN in gives NaN.
// Cost: O(M² dimensions).
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
func EnergyScore(x [][]float64, y, w []float64, fair bool) float64 {
	m := len(x)
	sums := make([]float64, m*(m+1)/2)
	var total float64
	raw := make([]float64, m)
	for p := range y {
		for i := range x {
			raw[i] = x[i][p]
		}
		weight := 1.0
		if w != nil {
			weight = w[p]
		}
		total += weight
		addDistances(sums, weight, y[p], raw)
	}
	for i := range sums {
		sums[i] /= total
	}
	return energy(sums, m, fair)
}

// addDistances adds one dimension to squared distances: w(x_i−y)² for each member, then
// w(x_i−x_j)² for each pair i<j.
//
// Shape: sums [M(M+1)/2].
func addDistances(sums []float64, w, y float64, x []float64) {
	at := len(x)
	for i, a := range x {
		sums[i] += w * (a - y) * (a - y)
		pairs := sums[at:]
		for j, b := range x[i+1:] {
			pairs[j] += w * (a - b) * (a - b)
		}
		at += len(x) - i - 1
	}
}

// energy computes the score from the mean squared distances of addDistances.
func energy(mean []float64, m int, fair bool) float64 {
	var toObs, pairs float64
	for _, v := range mean[:m] {
		toObs += math.Sqrt(v)
	}
	for _, v := range mean[m:] {
		pairs += math.Sqrt(v)
	}
	n := float64(m)
	if fair {
		return toObs/n - pairs/(n*(n-1))
	}
	return toObs/n - pairs/(n*n)
}

// pairDistances are the shared sums of the energy scores: those of addDistances over points.
var pairDistances = &Sums{
	Size: func(m, _ int) int { return m * (m + 1) / 2 },
	Add: func(sums []float64, w float64, c *Case) {
		var small [64]float64
		x := small[:0]
		for _, f := range c.location.members {
			x = append(x, float64(f[c.location.p]))
		}
		addDistances(sums, w, c.Obs, x)
	},
}

// Energy and EnergyFair are the energy score of whole fields, one value per date. The
// distance of two fields is their root mean square difference:
//
//	(1/M) Σᵢ |xᵢ−y| − c ΣᵢΣⱼ |xᵢ−xⱼ|,  c = 1/(2M²), fair 1/(2M(M−1))
//
// The score verifies the spatial dependence of members, mainly on large scales.
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437.
var (
	Energy     = newEnergyScore("energy", "energy score of fields", "M^2", 1, false)
	EnergyFair = newEnergyScore("energy_fair", "energy score of fields, fair", "M(M-1)", 2, true)
)

// newEnergyScore defines an energy score of fields; least is the least number of members.
func newEnergyScore(id, name, divisor string, least int, fair bool) *Score {
	return &Score{
		ID: id, Name: name, Formula: "mean_i|x_i-y| - 1/(2 " + divisor + ") sum_ij|x_i-x_j|, |.| the weighted RMS over points",
		Doc:    "CRPS of whole fields by their RMS distance; sensitive to patterns, mostly large scales.",
		Source: "doi:10.1198/016214506000001437",
		Unit:   SameAsVariable, Better: Lower, Divisor: divisor, Needs: Members, MinMembers: least, SharedSums: pairDistances,
		PerDate: func(mean []float64, m int) { mean[0] = energy(mean, m, fair) },
		Value:   firstMean,
	}
}
