package predict

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Quantiles of members by the definition of type 8, and probabilities as fractions.
func TestMemberStatistics(t *testing.T) {
	members := [][]float32{{3, 1}, {1, float32(math.NaN())}, {2, 2}, {5, 3}}
	for _, c := range []struct {
		name     string
		quantile bool
		level    float64
		event    ensemble.Event
		want     float64
	}{
		{"median", true, 0.5, ensemble.Event{}, 2.5},
		{"level of the second of four", true, (2 - 1./3) / (4 + 1./3), ensemble.Event{}, 2},
		{"between the third and the fourth", true, (3.25 - 1./3) / (4 + 1./3), ensemble.Event{}, 3.5},
		{"below all", true, 0.01, ensemble.Event{}, 1},
		{"above all", true, 0.99, ensemble.Event{}, 5},
		{"share above", false, 0, ensemble.Event{Relation: ensemble.Above, Lower: 2}, 0.5},
		{"share below", false, 0, ensemble.Event{Relation: ensemble.Below, Upper: 2}, 0.25},
		{"share between", false, 0, ensemble.Event{Relation: ensemble.Between, Lower: 1, Upper: 5}, 0.75},
	} {
		got := memberStatistic(members, c.quantile, c.level, c.event)
		if d := math.Abs(float64(got[0]) - c.want); !(d < 1e-6) || got[1] == got[1] {
			t.Errorf("%s: %v, want %g and NaN", c.name, got, c.want)
		}
	}
}
