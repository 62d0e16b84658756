package significance

import (
	"math"
	"slices"
	"testing"
)

func TestFalseDiscovery(t *testing.T) {
	j := readJudged(t)
	got, limit := FalseDiscovery(j.BH.P, 0.1)
	if !slices.Equal(got, j.BH.Decided) {
		t.Errorf("decided %v, want %v", got, j.BH.Decided)
	}
	if n := len(slices.DeleteFunc(slices.Clone(got), func(v bool) bool { return !v })); n == 0 || n == len(got) || limit != j.BH.P[n-1] {
		t.Errorf("%d decided up to %g", n, limit)
	}
	nan := math.NaN()
	if got, _ := FalseDiscovery([]float64{nan, 0.04, nan}, 0.05); !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("missing tests must not count: %v", got)
	}
	if got, limit := FalseDiscovery([]float64{0.5, 0.9}, 0.05); slices.Contains(got, true) || limit != 0 {
		t.Errorf("nothing is decided: %v %g", got, limit)
	}
	if got, _ := FalseDiscovery([]float64{0, 0.9}, 0.05); !got[0] || got[1] {
		t.Errorf("p = 0 is decided: %v", got)
	}
}
