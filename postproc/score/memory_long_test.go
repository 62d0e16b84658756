//go:build long

package score

import "testing"

// Coverage of 95 % intervals and false alarms at 5 %, as docs/verification.md states.
func TestLongCoverageOfIntervals(t *testing.T) {
	for _, n := range []int{60, 120, 365} {
		for _, rho := range []float64{0, 0.5, 0.8, 0.9} {
			coverage, alarms := covers(t, n, 3000, rho)
			t.Logf("%d dates, correlation %g: coverage %.3f, false alarms %.3f", n, rho, coverage, alarms)
			if coverage < 0.92 || coverage > 0.985 || alarms > 0.07 {
				t.Errorf("%d dates, correlation %g: coverage %.3f, false alarms %.3f", n, rho, coverage, alarms)
			}
		}
	}
}
