package ensemble_test

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// A value equal to a limit in the precision of the data is neither above nor below it, and lies in an event that
// begins there.
func TestEventOccurs(t *testing.T) {
	for _, limit := range []float64{0, 0.1, 0.3, 0.7, 1, 273.15, -5.3} {
		x := float32(limit)
		above, below := ensemble.Event{Relation: ensemble.Above, Lower: limit}, ensemble.Event{Relation: ensemble.Below, Upper: limit}
		from, to := ensemble.Event{Relation: ensemble.Between, Lower: limit, Upper: limit + 1}, ensemble.Event{Relation: ensemble.Between, Lower: limit - 1, Upper: limit}
		rounded := math.Nextafter32(x, 1000) // another rounding of the same number
		for _, v := range []float32{x, rounded, math.Nextafter32(x, -1000)} {
			if above.Occurs(float64(v)) || below.Occurs(float64(v)) || !from.Occurs(float64(v)) || to.Occurs(float64(v)) {
				t.Errorf("%g at %g: above %v, below %v, from %v, to %v", v, limit, above.Occurs(float64(v)), below.Occurs(float64(v)), from.Occurs(float64(v)), to.Occurs(float64(v)))
			}
		}
		for _, e := range []ensemble.Event{above, {Relation: ensemble.AtLeast, Lower: limit}, {Relation: ensemble.AtMost, Upper: limit}} {
			for _, v := range []float64{limit - 1e-3, limit, float64(x), float64(rounded), limit + 1e-3} {
				equal := math.Abs(v-limit) < 1e-4
				want := equal == (e.Relation != ensemble.Above) && (equal || e.Relation == ensemble.Above && v > limit) || !equal && (v > limit) == (e.Relation != ensemble.AtMost)
				threshold, complement, ok := e.Exceedance()
				if scored := (v > ensemble.AboveLimit(threshold)) != complement; !ok || e.Occurs(v) != want || scored != want {
					t.Errorf("%s at %g: occurs %v, scored %v at %g", e, v, e.Occurs(v), scored, threshold)
				}
			}
		}
		if !above.Occurs(limit+1e-3) || !below.Occurs(limit-1e-3) || from.Occurs(limit-1e-3) || !to.Occurs(limit-1e-3) {
			t.Errorf("values a thousandth from %g are counted as equal", limit)
		}
	}
	if above := (ensemble.Event{Relation: ensemble.Above}); above.Occurs(math.NaN()) {
		t.Error("a missing value is above 0")
	}
}
