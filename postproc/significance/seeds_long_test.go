//go:build long

package significance

import "testing"

// Coverage of 95 % intervals over dates and seeds, as docs/experiments.md states. Intervals of few dates are wide
// already with one seed.
func TestLongCoverageOverSeeds(t *testing.T) {
	for _, n := range []int{13, 52, 200} {
		for _, seeds := range []int{3, 5} {
			for _, share := range []float64{0, 0.2, 0.5, 0.8, 0.95} {
				for _, c := range []struct{ rho, interaction float64 }{{0, 0}, {0, 1}, {0.5, 0}} {
					coverage := coversSeeds(t, n, seeds, 1500, c.rho, share, c.interaction)
					t.Logf("%d dates of correlation %g, %d seeds, share %g, interaction %g: coverage %.3f", n, c.rho, seeds, share, c.interaction, coverage)
					if most := map[bool]float64{true: 1, false: 0.985}[n < 52]; coverage < 0.93 || coverage > most {
						t.Errorf("%d dates of correlation %g, %d seeds, share %g, interaction %g: coverage %.3f", n, c.rho, seeds, share, c.interaction, coverage)
					}
				}
			}
		}
	}
}
