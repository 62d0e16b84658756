package experiment

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// addPeriods adds the skill of each variant in each test period and in all, and its trend, to a record.
// results are those of the trainings, for the units.
//
// Errors: those of table.Read.
func (o *Options) addPeriods(ctx context.Context, r *record.Record, results []*score.Result) error {
	var skill periods.Skill
	for _, v := range o.Experiment.Variants {
		var groups []periods.Group
		for _, origin := range o.Experiment.Origins.Names() {
			g := periods.Group{Origin: origin}
			for _, seed := range o.Experiment.Seeds {
				dates, err := table.Read[score.DateScore](ctx, filepath.Join(o.Dir, training{v, origin, seed}.dir(), trained.DatesTable))
				if err != nil {
					return err
				}
				g.Seeds = append(g.Seeds, dates)
			}
			groups = append(groups, g)
		}
		if err := skill.Add(v.Name, groups, results); err != nil {
			return err
		}
	}
	r.Periods, r.Trends = skill.Periods, skill.Trends
	return nil
}

// savePeriods writes the tables of test periods and the page.
//
// Errors: exit 73 and 74.
func savePeriods(dir string, r *record.Record) error {
	folder := filepath.Join(dir, "report")
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return exit.CreateError(folder, err)
	}
	s := periods.Skill{Periods: r.Periods, Trends: r.Trends}
	if err := s.Save(dir); err != nil {
		return err
	}
	trends, all := s.Tables()
	all.Notes = seedNotes(seedsOf(r))
	return reports.WritePage(folder, &report.Page{Title: "Test periods of " + r.Experiment, ChartsTitle: "Reduction in CRPS by test period", Charts: s.Charts(),
		Tables: []report.Table{report.TableOf("Trends", trends), report.TableOf("All references", all)},
		Status: []report.Fact{{Name: "experiment", Text: r.Title}, {Name: "trainings", Text: strconv.Itoa(len(r.Runs))}, {Name: "program", Text: r.Machine.Program}}})
}

// seedsOf is the number of seeds of a record.
func seedsOf(r *record.Record) int {
	seeds := map[int]bool{}
	for _, run := range r.Runs {
		seeds[run.Seed] = true
	}
	return len(seeds)
}
