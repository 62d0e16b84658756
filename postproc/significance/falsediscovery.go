package significance

import (
	"math"
	"slices"
)

// FalseDiscovery selects the significant ones among many tests so that the expected
// fraction of false ones is at most q (Benjamini–Hochberg procedure). With ascending
// p-values p₍₁₎ ≤ … ≤ p₍ₙ₎ it selects all up to the largest that fulfils
//
//	p₍ᵢ₎ ≤ q i/n
//
// This holds for independent tests, and approximately for the points of a smooth field;
// for fields Wilks recommends twice the level of a single test.
//
// Shape: p and decided [test]. limit is the largest selected p-value, 0 if none is.
// Missing: NaN is not counted as a test and never selected.
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
