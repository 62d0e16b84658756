package verify

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// selectCalibrated finds the calibrated members among the products.
func (v *Verification) selectCalibrated() {
	for _, t := range v.Targets {
		found := map[ensemble.Init][]ensemble.Entry{}
		for _, e := range v.products.Catalogue().Entries {
			if e.Product != ensemble.MemberField || !e.Grid.SameAs(v.Grid, input.GridTolerance) || (ProductKey{e.Variable, e.Level, e.Lead}) != t.Key || t.products[e.Init] == nil {
				continue
			}
			if k := slices.IndexFunc(found[e.Init], func(o ensemble.Entry) bool { return o.Member == e.Member }); k >= 0 {
				t.repeat(found[e.Init][k], e)
			} else {
				found[e.Init] = append(found[e.Init], e)
			}
		}
		alike := true
		for _, init := range t.Inits {
			slices.SortFunc(found[init], func(a, b ensemble.Entry) int { return int(a.Member) - int(b.Member) })
			alike = alike && len(found[init]) == len(found[t.Inits[0]])
		}
		if alike {
			t.calibrated = found
		} else {
			v.Warnings = append(v.Warnings, fmt.Sprintf("%s at %s: calibrated members are not scored, as their number differs between initialisations", t.Key.Variable, t.Key.Level))
		}
	}
}

// trainingCoupling returns the coupling tests of the training for the verified targets. They need members of
// other input, which products do not contain.
func (v *Verification) trainingCoupling() (rows []score.Coupling) {
	if v.reference == nil {
		return nil
	}
	for _, r := range v.reference.Coupling {
		if slices.ContainsFunc(v.Targets, func(t *VerifiedTarget) bool {
			return t.Key.Variable == r.Variable && t.Key.Level.String() == r.Level && t.Key.Lead.String() == r.Lead
		}) {
			rows = append(rows, r)
		}
	}
	return rows
}
