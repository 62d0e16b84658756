// Package backoff computes growing pauses between attempts.
package backoff

import "time"

// Delay is the pause before the next attempt after a number of failures, at least 1: first after the first one, doubled
// for each further one, at most most.
func Delay(first, most time.Duration, failures int) time.Duration {
	d := first
	for ; failures > 1 && d < most; failures-- {
		d *= 2
	}
	return min(d, most)
}
