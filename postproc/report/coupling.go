package report

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// couplingRow is a test of whether the members of a system know of each other.
type couplingRow struct {
	Text, System, Dates       string
	Value, Interval, Expected string
	Word                      string
	Failed                    bool
}

// coupling tells the tests of a target, and marks the systems in the table of its scores that do not
// pass them.
func (t *target) coupling(r *score.Result, variable, level, lead string) {
	for _, c := range r.Coupling {
		if c.Variable != variable || c.Level != level || c.Lead != lead {
			continue
		}
		found := couplingRow{Text: c.Text, System: c.System, Dates: fmt.Sprintf("%d of the %s", c.N, c.DatesFrom), Value: figures(float64(c.Value)), Expected: figures(float64(c.Expected)), Word: c.Verdict(), Failed: c.Decided && !c.Passed}
		if c.CILow == c.CILow {
			found.Interval = interval(float64(c.CILow), float64(c.CIHigh), 1)
		}
		t.Coupling = append(t.Coupling, found)
		if i := slices.IndexFunc(t.Rows, func(r row) bool { return r.System == c.System }); i >= 0 && found.Failed {
			t.Rows[i].Coupled = true
		}
	}
}
