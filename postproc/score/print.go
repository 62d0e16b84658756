package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections formats the result for display: a table for each target, region and season
// with a row for each score and system; then the skill scores with their components, the
// CRPS of idealised ensembles, the tests of coupling, and the interpretation of the
// histograms over the whole area.
func (r *Result) Sections() answer.Sections {
	low := r.confidence() + " low"
	var all answer.Sections
	last := ""
	for _, v := range r.Scores {
		if head := target(v.Variable, v.Level, v.Lead, v.Region, v.Season); head != last {
			last = head
			all = append(all, answer.Section{Title: fmt.Sprintf("%s, %s, weights %s, %d points missing", head, humanise.Count(v.N, "date"), v.Weights, v.Missing),
				Columns: slices.Concat(answer.TextColumns("score", "system"), answer.NumberColumns("", "members", "value", low, "high"), answer.TextColumns("unit"))})
		}
		s := &all[len(all)-1]
		s.Rows = append(s.Rows, []any{Label(v.ID, v.Threshold), v.System, v.members(), digits(v.Value), digits(v.CILow), digits(v.CIHigh), v.Unit})
	}
	for _, s := range []answer.Section{r.comparisonSection(low), r.skillComponentSection(low), r.idealScoreSection(low), r.couplingSection(low)} {
		if len(s.Rows) > 0 {
			all = append(all, s)
		}
	}
	last = ""
	for _, c := range r.Calibration {
		if !IsOverall(c.Region, c.Season) {
			continue
		}
		if head := target(c.Variable, c.Level, c.Lead, "", ""); head != last {
			last = head
			all = append(all, answer.Section{Title: head})
		}
		s := &all[len(all)-1]
		s.Text = append(s.Text, "  "+c.System+": "+c.Text)
	}
	return all
}

// confidence formats the level of the intervals: "95 %".
func (r *Result) confidence() string {
	return strconv.FormatFloat(100*r.Bootstrap.Confidence, 'g', -1, 64) + " %"
}

// members is the number of members for a table cell, nil for systems without members.
func (v Value) members() any {
	if v.Members > 0 {
		return v.Members
	}
	return nil
}

// comparisonSection is the table of skill scores.
func (r *Result) comparisonSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("skill score", "system", "reference", "target"), answer.NumberColumns("", "%", low, "high")...)}
	for _, c := range r.Comparisons {
		ref := c.Reference
		if c.ReferenceID != c.ID {
			ref += " (" + c.ReferenceID + ")"
		}
		s.Rows = append(s.Rows, []any{Label(c.ID, c.Threshold), c.System, ref, target(c.Variable, c.Level, c.Lead, c.Region, c.Season), percent(c.SkillScore, 2), percent(c.CILow, 2), percent(c.CIHigh, 2)})
	}
	return s
}

// skillComponentSection is the table of the components of skill scores.
func (r *Result) skillComponentSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("component of skill", "system", "reference", "target"), answer.NumberColumns("", "%", low, "high", "CRPS")...)}
	for _, x := range r.SkillComponents {
		s.Rows = append(s.Rows, []any{x.Component, x.System, x.Reference + " (" + x.ReferenceID + ")", target(x.Variable, x.Level, x.Lead, x.Region, x.Season),
			percent(x.Reduction, 2), percent(x.CILow, 2), percent(x.CIHigh, 2), digits(x.CRPS)})
		if note := r.BetterBaseline(x); note != "" {
			s.Notes = append(s.Notes, target(x.Variable, x.Level, x.Lead, x.Region, x.Season)+": "+note)
		}
	}
	return s
}

// idealScoreSection is the table of the CRPS of idealised ensembles.
func (r *Result) idealScoreSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("idealised ensemble", "from", "target"), answer.NumberColumns("", "CRPS", low, "high", "system / ideal", "low", "high")...)}
	for _, y := range r.IdealScores {
		s.Rows = append(s.Rows, []any{y.ID, y.Reference, target(y.Variable, y.Level, y.Lead, y.Region, y.Season),
			digits(y.CRPS), digits(y.CILow), digits(y.CIHigh), digits(y.Ratio), digits(y.RatioLow), digits(y.RatioHigh)})
	}
	return s
}

// target names variable, level and lead, with region and season unless they are the whole.
func target(variable, level, lead, region, season string) string {
	name := variable + " " + level + " +" + lead
	for _, part := range []struct{ is, all string }{{region, Everywhere}, {season, AllYear}} {
		if part.is != "" && part.is != part.all {
			name += ", " + part.is
		}
	}
	return name
}

// digits formats four decimals below 10 and five significant digits above; "-" for missing values.
func digits(n Number) string {
	v := float64(n)
	if math.IsNaN(v) {
		return "-"
	}
	if a := math.Abs(v); a == 0 || a >= 1e-3 && a < 1e5 {
		return strconv.FormatFloat(v, 'f', max(0, 4-int(math.Floor(math.Log10(max(a, 1))))), 64)
	}
	return strconv.FormatFloat(v, 'g', 5, 64)
}

// percent formats a fraction in percent with some decimals; "-" for missing values. What rounds to zero has no sign.
func percent(n Number, decimals int) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return answer.UnsignedZero(strconv.FormatFloat(100*float64(n), 'f', decimals, 64))
}
