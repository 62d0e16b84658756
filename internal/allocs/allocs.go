// Package allocs counts allocations in tests of functions that must not allocate.
package allocs

import (
	"math"
	"testing"
)

// PerRun returns the minimum of three calls of testing.AllocsPerRun for f. The
// minimum excludes occasional allocations of the runtime. Each call runs f once
// more before it counts.
func PerRun(runs int, f func()) float64 {
	least := math.Inf(1)
	for i := 0; i < 3 && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
