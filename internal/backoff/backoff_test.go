package backoff

import (
	"math"
	"testing"
	"time"
)

// TestDelay: delays double up to the longest, whatever the number of failures.
func TestDelay(t *testing.T) {
	for _, c := range []struct {
		failures int
		want     time.Duration
	}{{1, time.Minute}, {2, 2 * time.Minute}, {6, 32 * time.Minute}, {7, time.Hour}, {8, time.Hour}, {math.MaxInt, time.Hour}} {
		if got := Delay(time.Minute, time.Hour, c.failures); got != c.want {
			t.Errorf("after %d failures: %s, want %s", c.failures, got, c.want)
		}
	}
	if got := Delay(2*time.Hour, time.Hour, 1); got != time.Hour {
		t.Errorf("a first delay above the longest: %s", got)
	}
}
