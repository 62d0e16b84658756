// Package allocs counts allocations for tests of what must make none.
package allocs

import (
	"math"
	"testing"
)

// PerRun is testing.AllocsPerRun of f, the least of three: the runtime itself may allocate now and then, what f
// allocates it allocates always. As that, it runs f once more each time, before it counts.
func PerRun(runs int, f func()) float64 {
	least := math.Inf(1)
	for i := 0; i < 3 && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
