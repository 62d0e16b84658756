package cluster

import (
	"fmt"
	"math/bits"
)

// Time is a point of virtual time or a duration, in picoseconds. Integers make sums
// exact in every order. The maximum is 106 days.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Seconds returns t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// String formats t with the largest unit that gives a value of at least 1.
func (t Time) String() string {
	for _, u := range []struct {
		unit Time
		name string
	}{{Second, "s"}, {Millisecond, "ms"}, {Microsecond, "µs"}, {Nanosecond, "ns"}} {
		if max(t, -t) >= u.unit {
			return fmt.Sprintf("%.9g %s", float64(t)/float64(u.unit), u.name)
		}
	}
	return fmt.Sprintf("%d ps", int64(t))
}

// Rate is in bytes per second. 12.5 GB/s, or 0.08 ns per byte, is 12_500_000_000.
type Rate int64

// minRate keeps the time of every possible message below the maximum of Time.
const minRate Rate = 1_000_000

// check returns an error for a rate below minRate.
func (r Rate) check() error {
	if r < minRate {
		return usage(fmt.Sprintf("invalid rate of %d bytes per second", r), fmt.Sprintf("the simulation supports %d and more", minRate), "set the rate in bytes per second")
	}
	return nil
}

// time returns the duration of a transfer of the given size, rounded up. The
// product of bytes and 10¹² needs 128 bits.
func (r Rate) time(bytes int64) Time {
	hi, lo := bits.Mul64(uint64(bytes), uint64(Second))
	lo, carry := bits.Add64(lo, uint64(r-1), 0)
	t, _ := bits.Div64(hi+carry, lo, uint64(r))
	return Time(t)
}
