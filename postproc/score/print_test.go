package score

import (
	"math"
	"testing"
)

// TestPercent: what rounds to zero has no sign, other values keep theirs.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		n        Number
		decimals int
		want     string
	}{
		{-0.00004, 2, "0.00"}, {-0.00006, 2, "-0.01"}, {0.00004, 2, "0.00"}, {-0.0004, 1, "0.0"}, {-0.0006, 1, "-0.1"}, {-0.104, 0, "-10"}, {-0.004, 0, "0"},
		{Number(math.Copysign(0, -1)), 2, "0.00"}, {-1, 1, "-100.0"}, {0.123456, 2, "12.35"}, {Number(math.NaN()), 2, "-"},
	} {
		if got := percent(c.n, c.decimals); got != c.want {
			t.Errorf("%g with %d decimals is %s, want %s", float64(c.n), c.decimals, got, c.want)
		}
	}
}
