package score

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// targetKey is what a section of a summary is of.
type targetKey struct{ variable, level, lead string }

// Summary is what one wants to know first, over the whole area and year: a table for each target, a row for each
// system with its CRPS (that of its distribution, of raw members the plain one; where the
// first system gives a spread only, the error of spreads), its error and its spread over it, and what the first system gains over it; then what the first
// system's histogram shows; at the end what the columns mean. Sections has the rest.
func (r *Result) Summary() answer.Sections {
	var all answer.Sections
	compared := "" // with the others
	var targets []targetKey
	for _, v := range r.Scores {
		if k := (targetKey{v.Variable, v.Level, v.Lead}); IsOverall(v.Region, v.Season) && !slices.Contains(targets, k) {
			targets = append(targets, k)
		}
	}
	for _, k := range targets {
		if rows := r.summaryScores(k); len(rows) > 0 {
			compared = rows[0].System
			all = append(all, r.summarySection(k, rows))
		}
	}
	if compared == "" {
		return nil
	}
	return append(all, answer.Section{Text: []string{"value: what the score gives, in its unit; smaller is better (docs/verification.md)",
		"spread over error: 1 is right; below it forecasts are too sure of themselves, above it not sure enough",
		fmt.Sprintf("gain of %s: how much smaller its value is; low and high hold it with %s confidence", compared, r.Bootstrap.confidence())}})
}

// summaryScores is of each system the score that says most.
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
	if len(rows) > 0 && summaryPriority(rows[0]) > spreadPriority { // a spread's error is no CRPS
		rows = slices.DeleteFunc(rows, func(v Value) bool { return summaryPriority(v) == spreadPriority })
	}
	return rows
}

// summarySection is the section of a target with the scores that say most.
func (r *Result) summarySection(k targetKey, rows []Value) answer.Section {
	first := rows[0].System
	s := answer.Section{Title: fmt.Sprintf("%s, %s", target(k.variable, k.level, k.lead, "", ""), humanise.Count(rows[0].N, "date")),
		Columns: slices.Concat(answer.TextColumns("system"), answer.NumberColumns("", "members", "value"), answer.TextColumns("unit", "score"),
			answer.NumberColumns("", "rmse", "spread over error", "gain of "+first, r.Bootstrap.confidence()+" low", "high"))}
	for _, v := range rows {
		other := func(id string) string {
			if o := r.Find(id, v.System, v.Variable, v.Level, v.Lead); o != nil {
				return digits(o.Value)
			}
			return "-"
		}
		gain, low, high := "", "", ""
		for _, c := range r.Comparisons {
			if c.ID == rows[0].ID && c.System == first && c.Reference == v.System && c.ReferenceID == v.ID && (targetKey{c.Variable, c.Level, c.Lead}) == k &&
				IsOverall(c.Region, c.Season) {
				gain, low, high = percent(c.SkillScore)+" %", percent(c.CILow), percent(c.CIHigh)
			}
		}
		s.Rows = append(s.Rows, []any{v.System, v.members(), digits(v.Value), v.Unit, v.ID, other(RMSE.ID), other(SpreadSkill.ID), gain, low, high})
	}
	for _, c := range r.Calibration {
		if c.System == first && (targetKey{c.Variable, c.Level, c.Lead}) == k && IsOverall(c.Region, c.Season) {
			s.Notes = append(s.Notes, "  "+c.System+": "+c.Text)
		}
	}
	return s
}

// spreadPriority is what telling says of the error of a spread.
const spreadPriority = 1

// summaryPriority ranks the scores of a summary: 0 is none of it.
func summaryPriority(v Value) int {
	return 1 + slices.Index([]string{SpreadRMSE.ID, CRPSGauss.ID, CRPSPlain.ID, CRPSFamily.ID}, v.ID)
}
