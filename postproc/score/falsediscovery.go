package score

import (
	"math"
	"slices"
)

// FalseDiscovery says which of many tests are decided if a share of at most q of those
// that are named may be wrong: with p₍₁₎ ≤ … ≤ p₍ₙ₎ all up to the largest
//
//	p₍ᵢ₎ ≤ q i/n
//
// It holds for independent tests and for those of a smooth field; for fields q is best
// twice the level that one test would have (Wilks).
//
// Shape: p and the result [test]. Missing: NaN is no test and never decided. limit is the
// largest p that is decided, 0 if none is.
// Source: Benjamini and Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x; Wilks 2016,
// doi:10.1175/BAMS-D-15-00267.1.
func FalseDiscovery(p []float64, q float64) (decided []bool, limit float64) {
	sorted := slices.DeleteFunc(slices.Clone(p), math.IsNaN)
	slices.Sort(sorted)
	for i, v := range sorted {
		if v <= q*float64(i+1)/float64(len(sorted)) {
			limit = v
		}
	}
	decided = make([]bool, len(p))
	if len(sorted) == 0 || sorted[0] > limit {
		return decided, limit
	}
	for i, v := range p {
		decided[i] = v <= limit
	}
	return decided, limit
}
