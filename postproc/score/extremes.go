package score

import (
	"cmp"
	"math"
	"slices"
)

// areas lists the names of all regions: the whole area, Options.Regions, and last
// LargestEFI, whose points differ from date to date.
func (a *Accumulator) areas() []string {
	out := []string{Everywhere}
	for _, r := range a.o.Regions {
		out = append(out, r.Name)
	}
	if a.o.Extremes > 0 {
		out = append(out, LargestEFI)
	}
	return out
}

// extreme marks the points of LargestEFI on one date; nil without that region.
func (a *Accumulator) extreme(ref Reference) []bool {
	if a.o.Extremes == 0 {
		return nil
	}
	return LargestPoints(ref.Extremes, a.grid.Weights, a.o.Extremes)
}

// LargestPoints marks the points with the largest |index| whose weights add up to at
// least the fraction share of the weights of all non-missing points. Points with equal
// index are taken in the order of the grid, so the result is reproducible.
//
// Shape: index, weights and result [point]; nil weights: equal. Missing: NaN is never
// marked.
// Source: Lalaurette 2003, doi:10.1256/qj.02.152, for the index.
func LargestPoints(index []float32, weights []float64, share float64) []bool {
	var order []int
	var total float64
	weight := func(p int) float64 {
		if weights == nil {
			return 1
		}
		return weights[p]
	}
	for p, v := range index {
		if v == v {
			order = append(order, p)
			total += weight(p)
		}
	}
	slices.SortStableFunc(order, func(p, q int) int {
		return cmp.Compare(math.Abs(float64(index[q])), math.Abs(float64(index[p])))
	})
	in := make([]bool, len(index))
	var sum float64
	for _, p := range order {
		if sum >= share*total {
			break
		}
		in[p] = true
		sum += weight(p)
	}
	return in
}
