package score

import (
	"cmp"
	"slices"
)

// Brief contains what a reader wants to know first about one target, over the whole area and all dates.
type Brief struct {
	Variable, Level, Lead string
	LeadH                 float64
	// Score is the main score of the first system: the CRPS of its distribution or members, or the
	// error of its spread.
	Score Value
	// Gains are the skill scores of the first system relative to each other one, in the order of the
	// result.
	Gains []Comparison
	// Ranking has the main score of every system that can be compared, best first.
	Ranking []Value
	Verdict Verdict
}

// mainScores are the scores that a brief compares: one for each system, the first that it has.
var mainScores = []string{CRPSFamily.ID, CRPSPlain.ID, CRPSGauss.ID}

// Briefs returns a brief for each target, in the order of the result.
func (r *Result) Briefs() (all []Brief) {
	var seen []targetKey
	for _, v := range r.Scores {
		k := targetKey{v.Variable, v.Level, v.Lead}
		if !IsOverall(v.Region, v.Season) || slices.Contains(seen, k) {
			continue
		}
		seen = append(seen, k)
		rows := r.summaryScores(k)
		if len(rows) == 0 {
			continue
		}
		b := Brief{Variable: k.variable, Level: k.level, Lead: k.lead, LeadH: rows[0].LeadH, Score: rows[0], Verdict: r.VerdictOf(rows[0].System, k.variable, k.level, k.lead)}
		for _, c := range r.Comparisons {
			if (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) && c.System == b.Score.System && c.ID == b.Score.ID &&
				slices.ContainsFunc(rows, func(o Value) bool { return o.System == c.Reference && o.ID == c.ReferenceID }) {
				b.Gains = append(b.Gains, c)
			}
		}
		for _, o := range rows {
			if slices.Contains(mainScores, o.ID) == slices.Contains(mainScores, b.Score.ID) && o.Value == o.Value {
				b.Ranking = append(b.Ranking, o)
			}
		}
		slices.SortStableFunc(b.Ranking, func(a, c Value) int { return cmp.Compare(a.Value, c.Value) })
		all = append(all, b)
	}
	return all
}
