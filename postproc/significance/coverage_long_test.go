//go:build long

package significance

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Coverage of 95 % intervals that are not withheld, share of those that are, and false alarms at 5 %, as
// docs/verification.md states. The sampling error of 4000 trials is 0.35 %.
func TestLongCoverageOfIntervals(t *testing.T) {
	for _, n := range []int{8, 13, 30, 52, 100, 365} {
		t.Run(fmt.Sprintf("%d dates", n), func(t *testing.T) { checkCoverage(t, n, 4000) })
	}
}

func checkCoverage(t *testing.T, n, trials int) {
	memories := []float64{0, 0.3, 0.5, 0.8}
	of, alarms := make([][]covered, len(memories)), make([]float64, len(memories))
	var all sync.WaitGroup
	for i, rho := range memories {
		all.Go(func() { of[i], alarms[i] = coverage(t, n, trials, rho) })
	}
	all.Wait()
	for i, rho := range memories {
		if n < MinDates {
			for k, s := range simulations {
				if of[i][k].withheld < 1 {
					t.Errorf("%d dates have an interval of a %s", n, s.name)
				}
			}
			t.Logf("%d dates, correlation %g: withheld, as the memory of fewer than %d dates is not known well enough", n, rho, MinDates)
			continue
		}
		var line strings.Builder
		for k, s := range simulations {
			c := of[i][k]
			fmt.Fprintf(&line, "%s %.3f, ", s.name, c.share)
			if c.withheld > 0 {
				fmt.Fprintf(&line, "%.1f %% withheld, ", 100*c.withheld)
			}
			if c.share < 0.93 || c.share > 0.97 || c.withheld > 0.1 {
				t.Errorf("%d dates, correlation %g: coverage of a %s %.3f, withheld %.3f", n, rho, s.name, c.share, c.withheld)
			}
		}
		t.Logf("%d dates, correlation %g: %sfalse alarms %.3f", n, rho, line.String(), alarms[i])
		if alarms[i] > 0.07 {
			t.Errorf("%d dates, correlation %g: false alarms %.3f", n, rho, alarms[i])
		}
	}
}
