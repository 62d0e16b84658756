//go:build long

package significance

import (
	"fmt"
	"strings"
	"testing"
)

// Coverage of 95 % intervals and false alarms at 5 %, as docs/verification.md states.
func TestLongCoverageOfIntervals(t *testing.T) {
	for _, n := range []int{8, 13, 30, 52, 100, 365} {
		for _, rho := range []float64{0, 0.3, 0.5, 0.8} {
			share, alarms := coverage(t, n, 4000, rho)
			if n < MinDates {
				for i, s := range simulations {
					if share[i] > 0 {
						t.Errorf("%d dates have an interval of a %s", n, s.name)
					}
				}
				t.Logf("%d dates, correlation %g: withheld, as the memory of fewer than %d dates is not known well enough", n, rho, MinDates)
				continue
			}
			var line strings.Builder
			for i, s := range simulations {
				fmt.Fprintf(&line, "%s %.3f, ", s.name, share[i])
				if share[i] < 0.93 || share[i] > 0.97 {
					t.Errorf("%d dates, correlation %g: coverage of a %s %.3f", n, rho, s.name, share[i])
				}
			}
			t.Logf("%d dates, correlation %g: %sfalse alarms %.3f", n, rho, line.String(), alarms)
			if alarms > 0.07 {
				t.Errorf("%d dates, correlation %g: false alarms %.3f", n, rho, alarms)
			}
		}
	}
}
