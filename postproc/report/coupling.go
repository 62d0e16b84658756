package report

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// couplingRow is a test of the independence of the members of a system.
//
// Failed: the interval does not contain the value of independent members.
type couplingRow struct {
	// Text describes the value, Dates their number and origin.
	Text, System, Dates string
	// Expected is the value of independent members.
	Value, Interval, Expected string
	// Word is "yes", "no" or "undecided".
	Word   string
	Failed bool
}

// coupling adds the tests of the target, and marks the systems that failed one in the table of
// scores.
func (t *target) coupling(r *score.Result, variable, level, lead string) {
	for _, c := range r.Coupling {
		if c.Variable != variable || c.Level != level || c.Lead != lead {
			continue
		}
		found := couplingRow{Text: c.Text, System: c.System, Dates: fmt.Sprintf("%d (%s)", c.N, c.DatesFrom), Value: figures(float64(c.Value)), Expected: figures(float64(c.Expected)), Word: c.Verdict(), Failed: c.Decided && !c.Passed}
		if c.CILow == c.CILow {
			found.Interval = interval(float64(c.CILow), float64(c.CIHigh), 1)
		}
		t.Coupling = append(t.Coupling, found)
		if i := slices.IndexFunc(t.Rows, func(r row) bool { return r.System == c.System }); i >= 0 && found.Failed {
			t.Rows[i].Coupled = true
		}
	}
}
