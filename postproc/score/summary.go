package score

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// targetKey identifies a section of a summary.
type targetKey struct{ variable, level, lead string }

// Summary formats the main results over the whole area and year: a table for each target
// with a row for each system. A row has the CRPS of the system (of its distribution, of
// raw members the plain CRPS; if the first system has only a spread, the error of the
// spread), the RMSE, the spread-skill ratio, and the skill score of the first system
// relative to this one. Below stand the interpretation of the first system's histogram
// and the meaning of the columns. Sections has all other results.
func (r *Result) Summary() answer.Sections {
	var all answer.Sections
	compared := "" // first system of the last table
	for _, k := range r.summaryTargets() {
		if rows := r.summaryScores(k); len(rows) > 0 {
			compared = rows[0].System
			all = append(all, r.summarySection(k, rows))
		}
	}
	if compared == "" {
		return nil
	}
	return append(all, answer.Section{Text: []string{"value: value of the score in its unit; smaller is better (docs/verification.md)",
		"spread / error: spread-skill ratio; 1 is calibrated, below 1 overconfident, above 1 underconfident",
		fmt.Sprintf("skill of %s: skill score, 1 - its value / value of this row; low and high are its %s confidence interval", compared, r.Bootstrap.confidence())}})
}

// summaryTargets lists the targets scored over the whole area and year.
func (r *Result) summaryTargets() (targets []targetKey) {
	for _, v := range r.Scores {
		if k := (targetKey{v.Variable, v.Level, v.Lead}); IsOverall(v.Region, v.Season) && !slices.Contains(targets, k) {
			targets = append(targets, k)
		}
	}
	return targets
}

// summaryComparison returns the skill score of the first system relative to the score of another, over the whole area
// and year; nil without.
func (r *Result) summaryComparison(k targetKey, first, other Value) *Comparison {
	for i, c := range r.Comparisons {
		if c.ID == first.ID && c.System == first.System && c.Reference == other.System && c.ReferenceID == other.ID && (targetKey{c.Variable, c.Level, c.Lead}) == k &&
			IsOverall(c.Region, c.Season) {
			return &r.Comparisons[i]
		}
	}
	return nil
}

// summaryScores selects, for each system, its score with the highest priority.
func (r *Result) summaryScores(k targetKey) (rows []Value) {
	for _, v := range r.Scores {
		if (targetKey{v.Variable, v.Level, v.Lead}) != k || !IsOverall(v.Region, v.Season) || summaryPriority(v) == 0 {
			continue
		}
		at := slices.IndexFunc(rows, func(o Value) bool { return o.System == v.System })
		if at < 0 {
			rows = append(rows, v)
		} else if summaryPriority(v) > summaryPriority(rows[at]) {
			rows[at] = v
		}
	}
	if len(rows) > 0 && summaryPriority(rows[0]) > spreadPriority { // the RMSE of a spread does not compare with a CRPS
		rows = slices.DeleteFunc(rows, func(v Value) bool { return summaryPriority(v) == spreadPriority })
	}
	return rows
}

// summarySection is the section of a target; rows holds one score for each system.
func (r *Result) summarySection(k targetKey, rows []Value) answer.Section {
	first := rows[0].System
	s := answer.Section{Title: fmt.Sprintf("%s, %s", target(k.variable, k.level, k.lead, "", ""), humanise.Count(rows[0].N, "date")),
		Columns: slices.Concat(answer.TextColumns("system"), answer.NumberColumns("", "members", "value"), answer.TextColumns("unit", "score"),
			answer.NumberColumns("", "rmse", "spread / error", "skill of "+first, r.Bootstrap.confidence()+" low", "high"))}
	for _, v := range rows {
		other := func(id string) string {
			if o := r.Find(id, v.System, v.Variable, v.Level, v.Lead); o != nil {
				return digits(o.Value)
			}
			return "-"
		}
		gain, low, high := "", "", ""
		if c := r.summaryComparison(k, rows[0], v); c != nil {
			gain, low, high = percent(c.SkillScore)+" %", percent(c.CILow), percent(c.CIHigh)
		}
		s.Rows = append(s.Rows, []any{v.System, v.members(), digits(v.Value), v.Unit, v.ID, other(RMSE.ID), other(SpreadSkill.ID), gain, low, high})
	}
	if text := rows[0].FewIndependent(); text != "" {
		s.Notes = append(s.Notes, "  "+text)
	}
	for _, c := range r.Calibration {
		if c.System == first && (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) {
			s.Notes = append(s.Notes, "  "+c.System+": "+c.Text)
		}
	}
	return s
}

// fewIndependent is the number of independent dates below which intervals are described as wide.
const fewIndependent = 10

// FewIndependent describes a score whose dates depend on each other so much that few
// independent ones remain; "" if there are enough.
func (v *Value) FewIndependent() string {
	if n := float64(v.Independent); n > 0 && n < fewIndependent && n < float64(v.N)/2 && v.N >= minDates {
		return fmt.Sprintf("Dates depend on each other: for %s of %s %d dates count as %.1f independent ones, so its interval is wide.", Label(v.ID, v.Threshold), v.System, v.N, n)
	}
	return ""
}

// Warnings describes the first score of each target if it rests on few independent dates.
func (r *Result) Warnings() (all []string) {
	var seen []targetKey
	for i := range r.Scores {
		v := &r.Scores[i]
		if k := (targetKey{v.Variable, v.Level, v.Lead}); IsOverall(v.Region, v.Season) && !slices.Contains(seen, k) {
			seen = append(seen, k)
			if text := v.FewIndependent(); text != "" {
				all = append(all, target(v.Variable, v.Level, v.Lead, "", "")+": "+text)
			}
		}
	}
	return all
}

// spreadPriority is the priority of the RMSE of a spread.
const spreadPriority = 1

// summaryPriority is the priority of a score in a summary; 0: not shown.
func summaryPriority(v Value) int {
	return 1 + slices.Index([]string{SpreadRMSE.ID, CRPSGauss.ID, CRPSPlain.ID, CRPSFamily.ID}, v.ID)
}
