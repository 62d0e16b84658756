//go:build long

package cost

import "testing"

// TestLongTuning: share of races and regret for several errors of expected times, for kernels that the fit did not see.
func TestLongTuning(t *testing.T) {
	r := committedRaces(t)
	least := 0.0
	for _, limit := range []float64{0.01, 0.02, variantError, 0.06, 0.1} {
		var all tally
		by := map[string]*tally{}
		worst := 0.0
		for _, network := range r.Tunings {
			e := fitWithout(t, r, network.Network)
			e.Error, e.KindError = limit, kindError
			for k, s := range r.Setups {
				sum := r.race(t, network, k, e)
				if sum.variants == 0 {
					continue
				}
				worst = max(worst, sum.regret())
				all.add(sum)
				if by[s.String()] == nil {
					by[s.String()] = &tally{}
				}
				by[s.String()].add(sum)
			}
		}
		t.Logf("error %g: %v, of a network and setup at most %.1f %%", limit, all, 100*worst)
		for s, sum := range by {
			t.Logf("  %s: %v", s, sum)
		}
		if least > all.share() {
			t.Errorf("error %g times a share of %.3f of the variants, a smaller one %.3f", limit, all.share(), least)
		}
		least = all.share()
	}
}
