package experiment

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/periods"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// checkOrigins checks that each test period has initialisations, before the first training.
//
// Errors: those of training and samples.Survey; exit 66 for a period without initialisation.
func (o *Options) checkOrigins(ctx context.Context, d *dataset) error {
	for _, origin := range o.Experiment.Origins.Names() {
		c, err := o.training(d.folder, training{o.Experiment.Variants[0], origin, o.Experiment.Seeds[0]})
		if err != nil {
			return err
		}
		split, _, err := samples.Survey(ctx, c, &ensemble.Grid{})
		if err != nil {
			return err
		}
		if len(split.Test) == 0 {
			return emptyPeriod(origin, c)
		}
	}
	return nil
}

// emptyPeriod is the error of a test period without complete initialisations.
func emptyPeriod(origin string, c *config.TrainConfig) error {
	return &exit.Error{Code: exit.NotYet, What: "no initialisation lies in the test period", At: "origin " + origin,
		Why: "the period is from " + c.Data.Split.Test.From.String() + " to " + c.Data.Split.Test.To.String(), Fix: "lower origins.periods, or add the files of that period"}
}

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
				dates, _, err := trained.ReadDates(ctx, filepath.Join(o.Dir, training{v, origin, seed}.dir()))
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
	if err := filesystem.MkdirAll(folder, 0o777); err != nil {
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
