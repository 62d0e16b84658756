package offload

import (
	"cmp"
	"slices"
)

// CutPoints divides a forward pass into at most n blocks, n ≥ 1. live[i] is the
// number of bytes that cross from step i to step i+1 because a later step of
// the forward pass reads them. A block cannot free them. Boundaries are local
// minima of live, such as the boundaries between stages of a U-Net. If there
// are more than n−1 minima, those with the fewest bytes are used.
//
// The result holds the first step of every block but the first, ascending.
func CutPoints(live []float64, n int) []int {
	var at []int
	for i := range live {
		// the first of equal neighbours
		if (i == 0 || live[i] < live[i-1]) && isLocalMinimum(live, i) {
			at = append(at, i+1)
		}
	}
	if len(at) > n-1 {
		slices.SortStableFunc(at, func(a, b int) int { return cmp.Compare(live[a-1], live[b-1]) })
		at = at[:n-1]
		slices.Sort(at)
	}
	return at
}

// isLocalMinimum reports whether the next different value after position i is
// larger, or there is none.
func isLocalMinimum(live []float64, i int) bool {
	for _, v := range live[i+1:] {
		if v != live[i] {
			return v > live[i]
		}
	}
	return true
}
