package experiment

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// periodsTable is the file of the skill in each test period.
const periodsTable = "periods.csv"

// savePeriods writes the table of test periods and the page.
//
// Errors: exit 73 and 74.
func savePeriods(dir string, r *record.Record) error {
	folder := filepath.Join(dir, "report")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return exit.CreateError(folder, err)
	}
	if err := table.WriteCSV(filepath.Join(dir, periodsTable), r.Periods); err != nil {
		return err
	}
	return reports.WritePage(folder, periodPage(r))
}

// periodPage is the page of an experiment with origins: reductions in CRPS against date, trends, and the
// comparisons with all references.
func periodPage(r *record.Record) *report.Page {
	p := &report.Page{Title: "Test periods of " + r.Experiment, ChartsTitle: "Reduction in CRPS by test period",
		Status: []report.Fact{{Name: "experiment", Text: r.Title}, {Name: "trainings", Text: strconv.Itoa(len(r.Runs))}, {Name: "program", Text: r.Machine.Program}}}
	charts := map[string]*report.Chart{}
	var order []string
	shown := hardest(r.Periods)
	variants := map[string]bool{}
	for _, h := range shown {
		variants[h.Variant] = true
	}
	for _, h := range shown {
		name := fmt.Sprintf("%s at %s, lead %s", h.Variable, h.Level, h.Lead)
		if charts[name] == nil {
			charts[name] = &report.Chart{Title: name, X: "middle of the test period, year", Y: "reduction in CRPS in %", Zero: true}
			order = append(order, name)
		}
		line := report.Line{Name: "vs " + h.Reference}
		if len(variants) > 1 {
			line.Name = h.Variant + " " + line.Name
		}
		for _, q := range ofComparison(r.Periods, h) {
			line.X, line.Y = append(line.X, middle(q)), append(line.Y, 100*float64(q.SkillScore))
			line.Low, line.High = append(line.Low, 100*float64(q.CILow)), append(line.High, 100*float64(q.CIHigh))
		}
		charts[name].Lines = append(charts[name].Lines, line)
	}
	for _, name := range order {
		p.Charts = append(p.Charts, *charts[name])
	}
	all := periodTable(byComparison(r.Periods, r.Periods))
	all.Notes = periodNotes(r)
	p.Tables = []report.Table{report.TableOf("Trends", trendTable(r, shown)), report.TableOf("All references", all)}
	return p
}

// middle is the middle of a test period as a year with decimals.
func middle(p record.Period) float64 {
	from, _ := time.Parse(time.RFC3339, p.From) // written by addRow
	to, _ := time.Parse(time.RFC3339, p.To)
	at := from.Add(to.Sub(from) / 2)
	begin := time.Date(at.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
	return float64(at.Year()) + at.Sub(begin).Hours()/begin.AddDate(1, 0, 0).Sub(begin).Hours()
}

// periodSections are the tables of test periods of a record, with the hardest references; nil without origins.
func periodSections(r *record.Record) answer.Sections {
	if r.Periods == nil {
		return nil
	}
	shown := hardest(r.Periods)
	table := periodTable(byComparison(r.Periods, shown))
	table.Notes = periodNotes(r)
	return answer.Sections{table, trendTable(r, shown)}
}

// periodNotes explains the intervals of the test periods of a record.
func periodNotes(r *record.Record) []string {
	seeds := map[int]bool{}
	for _, run := range r.Runs {
		seeds[run.Seed] = true
	}
	return seedNotes(len(seeds))
}

// byComparison lists the periods of each comparison in shown, followed by its row of all periods.
func byComparison(all, shown []record.Period) (rows []record.Period) {
	for _, p := range shown {
		if p.Origin == record.AllPeriods {
			rows = append(append(rows, ofComparison(all, p)...), p)
		}
	}
	return rows
}

// interval formats an interval in percent; nil without one.
func interval(low, high score.Number) any {
	if low != low || high != high {
		return nil
	}
	return fmt.Sprintf("%.2f to %.2f", 100*low, 100*high)
}

// periodTable is the table of rows of test periods.
func periodTable(rows []record.Period) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("variant", "target", "reference", "test period from", "to"), answer.NumberColumns("", "dates"),
		[]answer.Column{answer.NumberColumn("reduction", "", "%.2f %%")}, answer.TextColumns("interval"), answer.NumberColumns(fiveDigits, "CRPS", "sd over seeds", "of the reference"), answer.TextColumns("unit"))}
	for _, p := range rows {
		from, to := p.From[:len(time.DateOnly)], p.To[:len(time.DateOnly)]
		if p.Origin == record.AllPeriods {
			from = "all, from " + from
		}
		s.Rows = append(s.Rows, []any{p.Variant, targetName(p.Variable, p.Level, p.Lead), p.Reference, from, to, p.N, 100 * p.SkillScore, interval(p.CILow, p.CIHigh), p.Value, p.SD, p.ReferenceValue, p.Unit})
	}
	return s
}

// trendTable is the table of the trends of some comparisons.
func trendTable(r *record.Record, of []record.Period) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("variant", "target", "reference"), []answer.Column{answer.NumberColumn("change of the reduction a year", "", "%.2f %%")},
		answer.TextColumns("interval", ""))}
	for _, p := range of {
		t := trendOf(r.Trends, p)
		verdict := "none seen"
		switch {
		case t.PerYear != t.PerYear:
			verdict = "needs two years of test periods"
		case t.CILow > 0:
			verdict = "increases"
		case t.CIHigh < 0:
			verdict = "decreases"
		}
		s.Rows = append(s.Rows, []any{p.Variant, targetName(p.Variable, p.Level, p.Lead), p.Reference, 100 * t.PerYear, interval(t.CILow, t.CIHigh), verdict})
	}
	return s
}
