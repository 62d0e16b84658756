package workspace

import (
	"fmt"
	"math"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Micro is a measured micro-configuration: one piece run by one algorithm.
type Micro struct {
	Size      int    // samples of a batch, or output rows of a slab
	Algorithm string // name in the backend
	// Time of one run. For slabs it includes the rows that overlap neighbouring
	// slabs.
	Time  time.Duration
	Bytes int64 // workspace in bytes
}

// Kernel is one layer in one direction (forward, gradient of the data or of the
// filter) with its measurements.
type Kernel struct {
	Name   string // for messages and prints
	Size   int    // sum of the sizes of the pieces
	Micros []Micro
}

// check validates the measurements, so that sums of times do not overflow.
func (k Kernel) check() error {
	bad := func(format string, arg ...any) error {
		return &exit.Error{Code: exit.BadData, What: "invalid measurements of a kernel", At: k.Name,
			Why: fmt.Sprintf(format, arg...), Fix: "delete the timing table and measure again"}
	}
	if k.Size < 1 {
		return bad("kernel size is %d, want at least 1", k.Size)
	}
	for _, m := range k.Micros {
		if m.Size < 1 || m.Time < 0 || m.Bytes < 0 || int64(m.Time) > math.MaxInt64/int64(k.Size) {
			return bad("algorithm %q: size %d, time %d ns, %d bytes", m.Algorithm, m.Size, int64(m.Time), m.Bytes)
		}
	}
	return nil
}

// Policy selects the piece sizes that are measured.
type Policy uint8

// The policies.
const (
	Undivided  Policy = iota // the whole size only
	PowerOfTwo               // powers of two below the whole size, and the whole size
	All                      // every size, which takes many measurements
)

// policies holds the names by policy.
var policies = []string{Undivided: "undivided", PowerOfTwo: "powerOfTwo", All: "all"}

// String is the name that ParsePolicy accepts.
func (p Policy) String() string { return policies[p] }

// ParsePolicy returns the policy of that name.
//
// Errors: *exit.Error (exit.Usage) for another name.
func ParsePolicy(name string) (Policy, error) {
	for p, n := range policies {
		if n == name {
			return Policy(p), nil
		}
	}
	return 0, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown workspace policy %q", name),
		Why: fmt.Sprintf("valid are %q", policies), Fix: "use one of these"}
}

// Sizes lists the piece sizes to measure for a kernel of the given size,
// ascending.
func (p Policy) Sizes(size int) []int {
	var s []int
	switch p {
	case PowerOfTwo:
		for b := 1; b < size; b *= 2 {
			s = append(s, b)
		}
	case All:
		for b := 1; b < size; b++ {
			s = append(s, b)
		}
	}
	return append(s, size)
}
