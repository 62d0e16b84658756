package significance

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The interval of a function of sums has no width for a ratio that is equal on all dates, and
// contains the value otherwise.
func TestBootstrapInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	var same, unlike [][]float64
	for range 20 {
		w := 1 + r.Float64()
		same = append(same, []float64{w, 3 * w})
		unlike = append(unlike, []float64{w, w * (3 + r.NormFloat64())})
	}
	ratio := func(s []float64) float64 { return s[1] / s[0] }
	v, low, high, err := Bootstrap{}.Interval(same, ratio)
	if err != nil || math.Abs(v-3) > 1e-12 || high-low > 1e-12 {
		t.Errorf("%g from %g to %g, %v", v, low, high, err)
	}
	v, low, high, err = Bootstrap{}.Interval(unlike, ratio)
	if err != nil || !(low < v && v < high && high-low < 2) {
		t.Errorf("%g from %g to %g, %v", v, low, high, err)
	}
	for _, rows := range [][][]float64{nil, {{1}, {1, 2}}} {
		if _, _, _, err := (Bootstrap{}).Interval(rows, ratio); err == nil {
			t.Errorf("rows %v accepted", rows)
		}
	}
	if _, _, _, err := (Bootstrap{BlockLength: 30}).Interval(same, ratio); err == nil {
		t.Error("a block longer than the series accepted")
	}
}

// Resamples of few dates are nearly equal, so their interval would be too narrow; with a single
// block, or blocks as long as the series, all resamples are equal.
func TestFewDatesHaveNoInterval(t *testing.T) {
	for _, c := range []struct {
		dates, block int
		want         bool
	}{{2, 0, false}, {12, 0, false}, {13, 0, true}, {30, 0, true}, {30, 15, true}, {30, 16, false}} {
		var rows [][]float64
		for i := range c.dates {
			rows = append(rows, []float64{float64(i * i % 7)})
		}
		_, low, high, err := Bootstrap{BlockLength: c.block}.Interval(rows, func(sums []float64) float64 { return sums[0] })
		if err != nil || (low < high) != c.want || math.IsNaN(low) == c.want {
			t.Errorf("%d dates in blocks of %d: %g to %g, %v", c.dates, c.block, low, high, err)
		}
	}
}
