package periods

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Files lists the tables of periods and trends.
var Files = []string{"periods.csv", "trends.csv"}

// Save writes the tables of periods and trends into a folder.
//
// Errors: exit 73 and 74.
func (k *Skill) Save(dir string) error {
	if err := table.WriteCSV(filepath.Join(dir, Files[0]), k.Periods); err != nil {
		return err
	}
	return table.WriteCSV(filepath.Join(dir, Files[1]), k.Trends)
}

// Charts shows the reductions of each target against date, relative to the hardest references.
func (k *Skill) Charts() (all []report.Chart) {
	shown := k.hardest()
	variants := map[string]bool{}
	for _, h := range shown {
		variants[h.Variant] = true
	}
	for _, h := range shown {
		name := fmt.Sprintf("%s at %s, lead %s", h.Variable, h.Level, h.Lead)
		at := slices.IndexFunc(all, func(c report.Chart) bool { return c.Title == name })
		if at < 0 {
			at = len(all)
			all = append(all, report.Chart{Title: name, X: "middle of the period, year", Y: "reduction in CRPS in %", Zero: true})
		}
		line := report.Line{Name: "vs " + h.Reference}
		if len(variants) > 1 {
			line.Name = h.Variant + " " + line.Name
		}
		for _, q := range k.ofComparison(h) {
			line.X, line.Y = append(line.X, middle(q)), append(line.Y, 100*float64(q.SkillScore))
			line.Low, line.High = append(line.Low, 100*float64(q.CILow)), append(line.High, 100*float64(q.CIHigh))
		}
		all[at].Lines = append(all[at].Lines, line)
	}
	return all
}

// Tables are the trends relative to the hardest references, and the periods of all comparisons.
func (k *Skill) Tables() (trends, periods answer.Section) {
	return k.trendTable(k.hardest()), periodTable(k.byComparison(k.Periods))
}

// Sections are the tables of periods and trends, with the hardest references; nil without periods. Notes stand below
// the periods.
func (k *Skill) Sections(notes ...string) answer.Sections {
	if k.Periods == nil {
		return nil
	}
	shown := k.hardest()
	rows := periodTable(k.byComparison(shown))
	rows.Notes = notes
	return answer.Sections{rows, k.trendTable(shown)}
}

// middle is the middle of a period as a year with decimals.
func middle(p score.Period) float64 {
	from, _ := time.Parse(time.RFC3339, p.From) // written by row
	to, _ := time.Parse(time.RFC3339, p.To)
	at := from.Add(to.Sub(from) / 2)
	begin := time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	return float64(at.Year()) + at.Sub(begin).Hours()/begin.AddDate(1, 0, 0).Sub(begin).Hours()
}

// byComparison lists the periods of each comparison in shown, followed by its row of all periods.
func (k *Skill) byComparison(shown []score.Period) (rows []score.Period) {
	for _, p := range shown {
		if p.Origin == score.AllPeriods {
			rows = append(append(rows, k.ofComparison(p)...), p)
		}
	}
	return rows
}

// Interval formats an interval in percent; nil without one.
func Interval(low, high score.Number) any {
	if low != low || high != high {
		return nil
	}
	percent := func(x score.Number) string { return answer.UnsignedZero(fmt.Sprintf("%.2f", 100*x)) }
	return percent(low) + " to " + percent(high)
}

// TargetName names a target for people.
func TargetName(variable, level, lead string) string {
	return strings.Join([]string{variable, level, "+" + lead}, " ")
}

// fiveDigits is the format of scores.
const fiveDigits = "%.5g"

// periodTable is the table of rows of periods.
func periodTable(rows []score.Period) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("variant", "target", "reference", "period from", "to"), answer.NumberColumns("", "dates"),
		[]answer.Column{answer.NumberColumn("reduction", "", "%.2f %%")}, answer.TextColumns("interval"), answer.NumberColumns(fiveDigits, "CRPS", "sd over seeds", "of the reference"), answer.TextColumns("unit"))}
	for _, p := range rows {
		from, to := p.From[:len(time.DateOnly)], p.To[:len(time.DateOnly)]
		if p.Origin == score.AllPeriods {
			from = "all, from " + from
		}
		s.Rows = append(s.Rows, []any{p.Variant, TargetName(p.Variable, p.Level, p.Lead), p.Reference, from, to, p.N, 100 * p.SkillScore, Interval(p.CILow, p.CIHigh), p.Value, p.SD, p.ReferenceValue, p.Unit})
	}
	return withoutEmpty(s, "variant", "sd over seeds") // of a verification
}

// withoutEmpty leaves out columns that have no value in any row.
func withoutEmpty(s answer.Section, names ...string) answer.Section {
	for i, c := range slices.Backward(s.Columns) {
		filled := slices.ContainsFunc(s.Rows, func(row []any) bool {
			x, number := row[i].(score.Number)
			return row[i] != "" && !(number && x != x)
		})
		if filled || !slices.Contains(names, c.Name) {
			continue
		}
		s.Columns = slices.Delete(slices.Clone(s.Columns), i, i+1)
		for k := range s.Rows {
			s.Rows[k] = slices.Delete(s.Rows[k], i, i+1)
		}
	}
	return s
}

// trendTable is the table of the trends of some comparisons.
func (k *Skill) trendTable(of []score.Period) answer.Section {
	out := answer.Section{Columns: slices.Concat(answer.TextColumns("variant", "target", "reference"), []answer.Column{answer.NumberColumn("change of the reduction a year", "", "%.2f %%")},
		answer.TextColumns("interval", ""))}
	for _, p := range of {
		t := k.trendOf(p)
		verdict := "none seen"
		switch {
		case t.PerYear != t.PerYear:
			verdict = "needs two years"
		case t.CILow > 0:
			verdict = "increases"
		case t.CIHigh < 0:
			verdict = "decreases"
		}
		out.Rows = append(out.Rows, []any{p.Variant, TargetName(p.Variable, p.Level, p.Lead), p.Reference, 100 * t.PerYear, Interval(t.CILow, t.CIHigh), verdict})
	}
	return withoutEmpty(out, "variant")
}
