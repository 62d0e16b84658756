package benchstats

import (
	"math"
	"testing"
	"time"
)

// TestTimes: the median of an even number of values is the mean of the middle two.
func TestTimes(t *testing.T) {
	ms := func(all ...int) (d []time.Duration) {
		for _, x := range all {
			d = append(d, time.Duration(x)*time.Millisecond)
		}
		return d
	}
	for _, c := range []struct {
		in   []time.Duration
		want Times
	}{
		{ms(7), Times{7, 7, 7, 1}},
		{ms(9, 1, 4), Times{4, 1, 9, 3}},
		{ms(8, 1, 4, 5), Times{4.5, 1, 8, 4}},
	} {
		if got := TimesOf(c.in); got != c.want {
			t.Errorf("%v: %+v, want %+v", c.in, got, c.want)
		}
	}
}

// TestSeries: several values are printed with minimum and maximum, and their order
// is unchanged.
func TestSeries(t *testing.T) {
	s := Series{30, 1, 200}
	if got := s.String(); got != "30.0 [1.00–200]" || s[0] != 30 {
		t.Errorf("%s of %v", got, []float64(s))
	}
	if got := (Series{2}).String(); got != "2.00" {
		t.Errorf("one figure is %s", got)
	}
}

func TestRelativeDistance(t *testing.T) {
	if d := RelativeDistance([]float32{1, 2.002, 2}, []float32{1, 2, 2}); math.Abs(d-0.002/3) > 1e-6 {
		t.Errorf("distance %g, want %g", d, 0.002/3)
	}
}
