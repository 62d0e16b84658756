// Package ecc turns calibrated distributions at every point into members, by ensemble
// copula coupling (ECC).
//
// A univariate calibration destroys the dependence between points, variables and leads.
// ECC restores it: at each point the calibrated quantiles are assigned to members in the
// rank order of a template. In ECC the template is the raw ensemble, in the Schaake shuffle
// it is a set of past analyses.
//
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443.
package ecc

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Levels returns the probabilities i/(n+1), i = 1..n, of n equidistant quantiles (ECC-Q).
//
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443.
func Levels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i+1) / float64(n+1)
	}
	return out
}

// MidLevels returns the probabilities (i−½)/n, i = 1..n. Among all choices of n quantiles
// as members these have the least expected plain CRPS.
//
// Source: Bröcker 2012, doi:10.1002/qj.1891.
func MidLevels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = (float64(i) + 0.5) / float64(n)
	}
	return out
}

// Assignment computes the probability of the quantile that each member receives at one point,
// from the values of the template there, none of which is NaN.
//
// Shape: levels (the result) and template [member].
type Assignment func(levels, template []float64, point int)

// Draws are the random numbers of points: of levels, and of the order of members whose values
// in the template are equal, such as dry ones. They depend on seed and stream of a point
// only, so a point has the same numbers whatever part of the grid a process holds.
type Draws struct {
	Seed   uint64
	Stream func(point int) uint64 // nil: the number of the point
}

// at returns the generator of a point.
func (d Draws) at(point int) *rand.PCG {
	stream := uint64(point)
	if d.Stream != nil {
		stream = d.Stream(point)
	}
	return rand.NewPCG(d.Seed, stream)
}

// FieldDraws are the draws of a field: by initialisation, lead, variable and level, and by the
// coordinates of a point.
func FieldDraws(init ensemble.Init, lead ensemble.Lead, variable string, level ensemble.Level, grid *ensemble.Grid) Draws {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %s %s %s", init, lead, variable, level)
	return Draws{h.Sum64(), func(point int) uint64 {
		const perDegree, turn = 1e4, 360e4 // finer than the rounding of grid coordinates
		lon := math.Mod(math.Round(grid.LonAt(point/grid.NX, point%grid.NX)*perDegree), turn)
		if lon < 0 {
			lon += turn
		}
		h := fnv.New64a()
		var b [16]byte
		binary.LittleEndian.PutUint64(b[:], uint64(int64(math.Round(grid.LatAt(point/grid.NX, point%grid.NX)*perDegree))))
		binary.LittleEndian.PutUint64(b[8:], uint64(int64(lon)))
		h.Write(b[:])
		return h.Sum64()
	}}
}

// Quantiles assigns ascending levels in the rank order of the template: the member with the
// smallest value gets the smallest level. The order of ties is drawn at each point: with the
// order of the members, dry members would be ordered by their numbers everywhere. With raw
// members as template it is ECC-Q, with past analyses the Schaake shuffle.
//
// Shape: levels [member], ascending. The result is not safe for concurrent use.
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443; Clark et al. 2004,
// doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2.
func Quantiles(levels []float64, ties Draws) Assignment {
	by := byRank{ties: ties}
	return func(out, template []float64, point int) { by.assign(out, template, levels, point) }
}

// Random assigns uniform random levels, drawn at every point, in the rank order of the
// template (ECC-R).
//
// The result is not safe for concurrent use.
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-R).
func Random(members int, draws Draws) Assignment {
	levels, by := make([]float64, members), byRank{ties: Draws{draws.Seed + 1, draws.Stream}}
	return func(out, template []float64, point int) {
		numbers := draws.at(point)
		for m := range levels {
			levels[m] = (float64(numbers.Uint64()>>11) + 0.5) / (1 << 53) // neither 0 nor 1
		}
		slices.Sort(levels)
		by.assign(out, template, levels, point)
	}
}

// Transformation assigns the levels of the template's values in a normal distribution fitted to
// them (ECC-T):
//
//	level_m = Φ((x_m − x̄)/s), s the standard deviation with divisor M−1
//
// Members keep their relative distances, not only their order: from a calibrated
// N(μ, σ²) they become μ + σ (x_m − x̄)/s, with spread σ. Where all values are equal, the
// levels are MidLevels in an order drawn at each point.
//
// The result is not safe for concurrent use.
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-T).
func Transformation(ties Draws) Assignment {
	var mid []float64
	by := byRank{ties: ties}
	return func(out, template []float64, point int) {
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
			by.assign(out, template, mid, point)
			return
		}
		for m, x := range template {
			out[m] = dist.NormalCDF((x - mean) / s)
		}
	}
}

// byRank assigns ascending values to members in the rank order of the template.
type byRank struct {
	ties  Draws
	order []uint64 // of tied members
}

// assign assigns values at a point. Numbers are drawn only if members tie.
//
// Cost: O(M²).
func (b *byRank) assign(out, template, values []float64, point int) {
	drawn := false
	for m, x := range template {
		r := 0
		for k, v := range template {
			if v == x && k != m && !drawn {
				b.draw(len(template), point)
				drawn = true
			}
			if v < x || v == x && k != m && b.order[k] < b.order[m] {
				r++
			}
		}
		out[m] = values[r]
	}
}

// draw draws a random permutation of the members (Fisher and Yates).
func (b *byRank) draw(members, point int) {
	b.order = b.order[:0]
	for m := range members {
		b.order = append(b.order, uint64(m))
	}
	r := rand.New(b.ties.at(point))
	r.Shuffle(members, func(i, j int) { b.order[i], b.order[j] = b.order[j], b.order[i] })
}

// CoupleQuantiles makes calibrated members of a whole field by Quantiles.
//
// Shape: template and result [member][point]; levels [member], ascending.
// Missing: as Couple. Errors: as Couple; levels of wrong number or order.
func CoupleQuantiles(template [][]float32, levels []float64, ties Draws, quantile func(point int, level float64) float64) ([][]float32, error) {
	if n := len(template); n == 0 || len(levels) != n {
		return nil, fmt.Errorf("ecc: %d levels for %d members", len(levels), n)
	}
	if !slices.IsSorted(levels) {
		return nil, fmt.Errorf("ecc: levels %v: want ascending numbers", levels)
	}
	return Couple(template, Quantiles(levels, ties), quantile)
}

// Couple makes calibrated members of a whole field:
//
//	out_m(p) = quantile(p, level of member m at p)
//
// with the levels of assign. quantile is the quantile function of the calibrated
// distribution at a point.
//
// Shape: template and result [member][point].
// Missing: NaN in one member of the template makes the point NaN in all members; a NaN
// from quantile affects its member only.
// Errors: a template without members, fields of unequal length.
func Couple(template [][]float32, assign Assignment, quantile func(point int, level float64) float64) ([][]float32, error) {
	n := len(template)
	if n == 0 {
		return nil, fmt.Errorf("ecc: the template has no members")
	}
	out := make([][]float32, n)
	for m := range template {
		if len(template[m]) != len(template[0]) {
			return nil, fmt.Errorf("ecc: member %d of the template has %d points, member 0 has %d", m, len(template[m]), len(template[0]))
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
