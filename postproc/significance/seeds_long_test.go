//go:build long

package significance

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Coverage of 95 % intervals over dates and seeds, as docs/experiments.md states. The sampling error of 2000 trials is
// 0.5 %. With interaction the memory is below noise.
func TestLongCoverageOverSeeds(t *testing.T) {
	for _, c := range []struct {
		n     int
		seeds []int
	}{{MinDatesOverSeeds, []int{3, 5, 10}}, {52, []int{3, 5}}, {100, []int{3, 5}}, {200, []int{3, 5}}} {
		n := c.n
		for _, seeds := range c.seeds {
			for _, rho := range []float64{0, 0.3, 0.5, 0.8} {
				for _, interaction := range []float64{0, 1} {
					shares := []float64{0, 0.2, 0.5, 0.8, 0.95}
					coverage := make([]float64, len(shares))
					var all sync.WaitGroup
					for i, share := range shares {
						all.Go(func() { coverage[i] = coversSeeds(t, n, seeds, 2000, rho, share, interaction) })
					}
					all.Wait()
					var line strings.Builder
					for i, share := range shares {
						fmt.Fprintf(&line, ", share %g: %.3f", share, coverage[i])
						if coverage[i] < 0.93-0.01 || coverage[i] > 0.97+0.01 { // two sampling errors
							t.Errorf("%d dates of correlation %g, %d seeds, interaction %g, share %g: coverage %.3f", n, rho, seeds, interaction, share, coverage[i])
						}
					}
					t.Logf("%d dates of correlation %g, %d seeds, interaction %g%s", n, rho, seeds, interaction, line.String())
				}
			}
		}
	}
}
