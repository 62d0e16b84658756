package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/humanise"
)

// Sections are the result for people: a table for each target, region and season with a row for each score and system; then
// the comparisons, what a gain is made of, what the best possible is, and what histograms show over the whole area.
func (r *Result) Sections() answer.Sections {
	low := r.Bootstrap.confidence() + " low"
	var all answer.Sections
	last := ""
	for _, v := range r.Scores {
		if head := target(v.Variable, v.Level, v.Lead, v.Region, v.Season); head != last {
			last = head
			all = append(all, answer.Section{Title: fmt.Sprintf("%s, %s, weights %s, %d points missing", head, humanise.Count(v.N, "date"), v.Weights, v.Missing),
				Columns: slices.Concat(answer.TextColumns("score", "system"), answer.NumberColumns("", "members", "value", low, "high"), answer.TextColumns("unit"))})
		}
		s := &all[len(all)-1]
		s.Rows = append(s.Rows, []any{v.ID, v.System, v.members(), digits(v.Value), digits(v.CILow), digits(v.CIHigh), v.Unit})
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

// confidence is that of intervals, "95 %".
func (b Bootstrap) confidence() string {
	return strconv.FormatFloat(100*b.Confidence, 'g', -1, 64) + " %"
}

// members is their number, nil for what has none.
func (v Value) members() any {
	if v.Members > 0 {
		return v.Members
	}
	return nil
}

func (r *Result) comparisonSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("gain", "system", "over", "target"), answer.NumberColumns("", "%", low, "high")...)}
	for _, c := range r.Comparisons {
		ref := c.Reference
		if c.ReferenceID != c.ID {
			ref += " (" + c.ReferenceID + ")"
		}
		s.Rows = append(s.Rows, []any{c.ID, c.System, ref, target(c.Variable, c.Level, c.Lead, c.Region, c.Season), percent(c.SkillScore), percent(c.CILow), percent(c.CIHigh)})
	}
	return s
}

func (r *Result) skillComponentSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("share of gain", "system", "over", "target"), answer.NumberColumns("", "%", low, "high", "CRPS")...)}
	for _, x := range r.SkillComponents {
		s.Rows = append(s.Rows, []any{x.Component, x.System, x.Reference + " (" + x.ReferenceID + ")", target(x.Variable, x.Level, x.Lead, x.Region, x.Season),
			percent(x.Reduction), percent(x.CILow), percent(x.CIHigh), digits(x.CRPS)})
	}
	return s
}

func (r *Result) idealScoreSection(low string) answer.Section {
	s := answer.Section{Columns: append(answer.TextColumns("yardstick", "of", "target"), answer.NumberColumns("", "CRPS", low, "high", "system over it", "low", "high")...)}
	for _, y := range r.IdealScores {
		s.Rows = append(s.Rows, []any{y.ID, y.Reference, target(y.Variable, y.Level, y.Lead, y.Region, y.Season),
			digits(y.CRPS), digits(y.CILow), digits(y.CIHigh), digits(y.Ratio), digits(y.RatioLow), digits(y.RatioHigh)})
	}
	return s
}

// target names what scores are of, with the part of the area and of the year if it is a part.
func target(variable, level, lead, region, season string) string {
	name := variable + " " + level + " +" + lead
	for _, part := range []struct{ is, all string }{{region, Everywhere}, {season, AllYear}} {
		if part.is != "" && part.is != part.all {
			name += ", " + part.is
		}
	}
	return name
}

// digits shows four decimals below 10 and five digits above, missing numbers as "-".
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

func percent(n Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n), 'f', 2, 64)
}
