package optimum

import (
	"cmp"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// LearningCurves are charts of CRPS against the number of training initialisations, one for each target: of the network, of the
// reference fitted to the same initialisations, and of the optimum. Without variants of several numbers there are none.
func (r *Result) LearningCurves() (all []report.Chart) {
	own := slices.DeleteFunc(slices.Clone(r.Shares), func(s Share) bool { return s.System != scoring.SystemNetwork || s.Region != score.Everywhere })
	slices.SortStableFunc(own, func(a, b Share) int { return cmp.Compare(a.TrainingDates, b.TrainingDates) })
	if len(own) == 0 || own[0].TrainingDates == own[len(own)-1].TrainingDates {
		return nil
	}
	for _, s := range own {
		title := targetName(s.Variable, s.Level, s.Lead)
		at := slices.IndexFunc(all, func(c report.Chart) bool { return c.Title == title })
		if at < 0 {
			at = len(all)
			all = append(all, report.Chart{Title: title, X: "training initialisations", Y: "CRPS in " + s.Unit, Lines: []report.Line{{Name: "network"}, {Name: Reference}, {Name: "optimum"}}})
		}
		for i, y := range []float64{float64(s.CRPS), float64(s.ReferenceCRPS), float64(s.OracleCRPS)} {
			l := &all[at].Lines[i]
			l.X, l.Y = append(l.X, float64(s.TrainingDates)), append(l.Y, y)
		}
	}
	return all
}
