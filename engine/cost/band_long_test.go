//go:build long

package cost

import "testing"

// TestLongBand: the error of whole steps on setups that the fit did not see, by setup and by network, also against the
// least times of whole steps, which other processes disturb more. A machine is an instruction set with
// a number of threads; instruction sets with all their threads, and processors with all their instruction sets, are left out as well.
func TestLongBand(t *testing.T) {
	r := committedRaces(t)
	for _, c := range []struct {
		name  string
		apart func(a, b Setup) bool
	}{{"setup", SameSetup}, {"instruction set", SameISA}, {"processor", sameCPU}} {
		all, err := LeaveOut(r, c.apart)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string][]Residual{}
		for _, x := range all {
			whole := x
			whole.Measured = x.Whole
			by["least times of whole steps"] = append(by["least times of whole steps"], whole)
			for _, key := range []string{"all", x.Setup.String(), x.Phase, x.Network} {
				by[key] = append(by[key], x)
			}
		}
		for key, some := range by {
			b := BandOf(some)
			t.Logf("%s left out, %s: median %.1f %%, 95 %% %.1f %% of %d steps", c.name, key, 100*b.Median, 100*b.P95, b.Steps)
		}
	}
}
