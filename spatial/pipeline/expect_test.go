package pipeline

import (
	"math"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/spatial/cluster"
)

// Forward passes of stage 0 take 2 or 4, others nothing. Both workers of Chimera run one and then wait for that of the other: a
// step takes 4 with three of four pairs, and with two of them one worker is idle for half of it.
func TestExpect(t *testing.T) {
	s := must(t)(Chimera(2, 2, ChimeraOptions{}))
	const unit = cluster.Time(1 << 20)
	pass := func(forward ...cluster.Time) PassTimes {
		return PassTimes{Forward: [][]cluster.Time{forward, {0}}, Backward: [][]cluster.Time{{0}, {0}}}
	}
	const steps = 10_000
	got, err := s.Expect([]PassTimes{pass(2*unit, 2*unit), pass(2*unit, 4*unit), pass(4*unit, 2*unit), pass(4*unit, 4*unit)}, nil, steps)
	if err != nil {
		t.Fatal(err)
	}
	if e := float64(got.End)/float64(unit) - 3.5; math.Abs(e) > 1e-2 {
		t.Errorf("mean step of %.4f units, want 3.5", 3.5+e)
	}
	if math.Abs(got.Bubbles-0.125) > 1e-9 {
		t.Errorf("mean idle share %.4f, want 0.125", got.Bubbles)
	}
	// Two of 99 times that follow each other, all but one of which are 2: the other is one of them with probability 2/99.
	const long = 98
	many := slices.Repeat([]cluster.Time{2 * unit}, long)
	if got, err = s.Expect([]PassTimes{pass(append(many, 4*unit)...)}, nil, steps); err != nil {
		t.Fatal(err)
	}
	share := 0.25 * 2 / (long + 1) // mean idle share
	if e := got.Bubbles - share; math.Abs(e) > 4*0.25*math.Sqrt(2./(long+1)/steps) {
		t.Errorf("mean idle share %.5f, want %.5f", got.Bubbles, share)
	}
}
