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
		if !above.Occurs(limit+1e-3) || !below.Occurs(limit-1e-3) || from.Occurs(limit-1e-3) || !to.Occurs(limit-1e-3) {
			t.Errorf("values a thousandth from %g are counted as equal", limit)
		}
	}
	if above := (ensemble.Event{Relation: ensemble.Above}); above.Occurs(math.NaN()) {
		t.Error("a missing value is above 0")
	}
}
