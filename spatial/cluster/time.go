package cluster

import (
	"fmt"
	"math/bits"
)

// Time is a moment of the virtual clock, or a span of it, in picoseconds. Whole
// numbers make sums exact in every order. It ends after 106 days.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Seconds is t in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

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

// Rate is in bytes a second: 12.5 GB/s, or 0.08 ns a byte, is 12_500_000_000.
type Rate int64

// minRate keeps the time of any message below the end of the clock.
const minRate Rate = 1_000_000

// check refuses rates at which the clock might run out.
func (r Rate) check() error {
	if r < minRate {
		return usage(fmt.Sprintf("a rate of %d bytes a second", r), fmt.Sprintf("the clock is made for %d and more", minRate), "give the rate in bytes a second")
	}
	return nil
}

// time is how long bytes take, rounded up.
func (r Rate) time(bytes int64) Time {
	hi, lo := bits.Mul64(uint64(bytes), uint64(Second))
	lo, carry := bits.Add64(lo, uint64(r-1), 0)
	t, _ := bits.Div64(hi+carry, lo, uint64(r))
	return Time(t)
}
