// Package ecc turns the calibrated distribution of every point back into members: the
// order of members at each point is that of a template, so that their fields are connected
// in space, between variables and in time as the template's are. Of ensemble copula coupling
// the template is the raw ensemble; of the Schaake shuffle it is past analyses.
package ecc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Levels are the probabilities i/(n+1), i = 1..n, of n equidistant quantiles.
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-Q).
func Levels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i+1) / float64(n+1)
	}
	return out
}

// MidLevels are the probabilities (i−½)/n, i = 1..n, whose quantiles have the
// least expected plain CRPS of all n members.
// Source: Bröcker 2012, doi:10.1002/qj.1891.
func MidLevels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = (float64(i) + 0.5) / float64(n)
	}
	return out
}

// Assignment gives each member of one point the probability whose quantile it gets, from the
// values of the template there, of which none is missing.
//
// Shape: levels, template [member].
type Assignment func(levels, template []float64, point int)

// Quantiles assigns ascending levels in the order of the template: the member with its
// smallest value gets the smallest. Members of equal value keep the order of their numbers.
// With raw members as the template it is ECC-Q, with past analyses the Schaake shuffle.
//
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443; Clark et al. 2004,
// doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2.
func Quantiles(levels []float64) Assignment {
	return func(out, template []float64, _ int) { assignByRank(out, template, levels) }
}

// Random assigns levels that are drawn anew at every point, in the order of the template
// (ECC-R). The draws follow from seed and the number that stream gives to the point alone,
// so the same place has the same draws on every part of a grid.
//
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-R).
func Random(members int, seed uint64, stream func(point int) uint64) Assignment {
	var numbers rand.PCG
	levels := make([]float64, members)
	return func(out, template []float64, point int) {
		numbers.Seed(seed, stream(point))
		for m := range levels {
			levels[m] = (float64(numbers.Uint64()>>11) + 0.5) / (1 << 53) // neither 0 nor 1
		}
		slices.Sort(levels)
		assignByRank(out, template, levels)
	}
}

// Transformation assigns the levels of the template's values in the normal distribution that is
// fitted to them (ECC-T):
//
//	level_m = Φ((x_m − x̄)/s), s the standard deviation with divisor M−1
//
// so members keep their distances, not their order alone: of a calibrated normal
// distribution N(μ, σ²) the members are μ + σ (x_m − x̄)/s, whose spread is σ. Where all
// values are equal nothing can be fitted, and levels are MidLevels in the order of numbers.
//
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-T).
func Transformation() Assignment {
	var mid []float64
	return func(out, template []float64, _ int) {
		n := float64(len(template))
		var mean, square float64
		for _, x := range template {
			mean += x / n
		}
		for _, x := range template {
			square += (x - mean) * (x - mean)
		}
		s := math.Sqrt(square / (n - 1))
		if !(s > 0) || slices.Min(template) == slices.Max(template) {
			if len(mid) != len(template) {
				mid = MidLevels(len(template))
			}
			assignByRank(out, template, mid)
			return
		}
		for m, x := range template {
			out[m] = dist.NormalCDF((x - mean) / s)
		}
	}
}

// assignByRank gives ascending values to members in the order of the template.
//
// Cost: O(M²), no allocation.
func assignByRank(out, template, values []float64) {
	for m, x := range template {
		r := 0
		for k, v := range template {
			if v < x || v == x && k < m {
				r++
			}
		}
		out[m] = values[r]
	}
}

// CoupleQuantiles makes calibrated members of a whole field by Ranked.
//
// Shape, Missing, Errors: as Members; levels [member], ascending.
func CoupleQuantiles(template [][]float32, levels []float64, quantile func(point int, level float64) float64) ([][]float32, error) {
	if n := len(template); n == 0 || len(levels) != n {
		return nil, fmt.Errorf("ecc: %d levels for %d members", len(levels), n)
	}
	if !slices.IsSorted(levels) {
		return nil, fmt.Errorf("ecc: levels %v do not ascend", levels)
	}
	return Couple(template, Quantiles(levels), quantile)
}

// Couple makes calibrated members of a whole field.
//
//	out_m(p) = quantile(p, level that assign gives to member m at p)
//
// Shape: template and the result [member][point]. quantile gives the calibrated
// distribution's quantile at a point.
// Missing: NaN in one field of the template makes the point missing in all members; NaN
// of quantile is that member's.
// Errors: a template without members, fields of unequal length.
func Couple(template [][]float32, assign Assignment, quantile func(point int, level float64) float64) ([][]float32, error) {
	n := len(template)
	if n == 0 {
		return nil, fmt.Errorf("ecc: a template without members")
	}
	out := make([][]float32, n)
	for m := range template {
		if len(template[m]) != len(template[0]) {
			return nil, fmt.Errorf("ecc: member %d has %d points, the first %d", m, len(template[m]), len(template[0]))
		}
		out[m] = make([]float32, len(template[m]))
	}
	x, levels := make([]float64, n), make([]float64, n)
	for p := range template[0] {
		for m := range template {
			x[m] = float64(template[m][p])
		}
		if slices.ContainsFunc(x, math.IsNaN) {
			for m := range out {
				out[m][p] = float32(math.NaN())
			}
			continue
		}
		assign(levels, x, p)
		for m, level := range levels {
			out[m][p] = float32(quantile(p, level))
		}
	}
	return out, nil
}
