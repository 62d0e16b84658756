package experiment

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/optimum"
	"github.com/ensemble-weather/ensemble/ensemble/run/reports"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/report"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// Files of an experiment with an oracle: the table of shares, and the folder of the oracle's scores.
const (
	optimumTable = "optimum.csv"
	oracleFolder = "oracle"
)

// filesOf lists the files of some patterns in the data directory.
func (d *dataset) filesOf(patterns []string) ([]string, error) {
	paths := make([]string, len(patterns))
	for i, p := range patterns {
		paths[i] = filepath.Join(d.folder, p)
	}
	files, _, err := input.ListFiles("the experiment's data", paths)
	return files, err
}

// checkOracle checks that the oracle has all test initialisations, and that each training has the baseline from which the way
// to the oracle is measured, before the first training.
//
// Errors: those of training, samples.Survey and optimum.CheckInits; exit 64 for a training without the baseline.
func (o *Options) checkOracle(ctx context.Context, d *dataset) error {
	if d.oracle == nil {
		return nil
	}
	var c *config.TrainConfig
	for _, t := range trainings(o.Experiment) {
		var err error
		if c, err = o.training(d.folder, t); err != nil {
			return err
		}
		if !slices.Contains(c.Train.Baselines, optimum.Reference) {
			return &exit.Error{Code: exit.Usage, What: "an oracle without the baseline " + optimum.Reference, At: o.Experiment.Config + ", baselines", Why: "the way to the oracle is measured from it",
				Fix: "add " + optimum.Reference + " to `baselines`, or remove data.oracle"}
		}
	}
	split, _, err := samples.Survey(ctx, c, &ensemble.Grid{})
	if err != nil {
		return err
	}
	files, err := d.filesOf(d.oracle)
	if err != nil {
		return err
	}
	return optimum.CheckInits(ctx, files, split.Test)
}

// compareWithOracle scores the oracle on the targets and dates of the trainings, computes the share of the way to it of all
// systems, and writes tables and page.
//
// Errors: those of optimum.Score and optimum.Shares; exit 73 and 74.
func (o *Options) compareWithOracle(ctx context.Context, r *record.Record) (*optimum.Result, error) {
	of, err := o.oracleOptions(ctx)
	if err != nil {
		return nil, err
	}
	res := &optimum.Result{}
	if res.Oracle, err = optimum.Score(ctx, *of); err != nil {
		return nil, err
	}
	for _, v := range o.Experiment.Variants {
		var seeds [][]score.DateScore
		_, dates, err := trained.FinishedTraining(filepath.Join(o.Dir, training{v, "", o.Experiment.Seeds[0]}.dir()))
		if err != nil {
			return nil, err
		}
		for _, seed := range o.Experiment.Seeds {
			whole, regions, err := trained.ReadDates(ctx, filepath.Join(o.Dir, training{v, "", seed}.dir()))
			if err != nil {
				return nil, err
			}
			seeds = append(seeds, slices.Concat(whole, regions))
		}
		shares, err := optimum.Shares(v.Name, seeds, slices.Concat(res.Oracle.Dates, res.Oracle.RegionDates), significance.Bootstrap{})
		if err != nil {
			return nil, err
		}
		for i := range shares {
			shares[i].TrainingDates = dates
		}
		res.Shares = append(res.Shares, shares...)
	}
	res.AddUnits(of.Targets)
	for _, run := range r.Runs {
		res.AddCost(run.Variant, run.Steps, run.Seconds, r.Machine.Threads)
	}
	if err := o.saveOptimum(r, res); err != nil {
		return nil, err
	}
	return res, nil
}

// oracleOptions returns the files, and the targets and dates of the trainings.
func (o *Options) oracleOptions(ctx context.Context) (*optimum.Options, error) {
	of := &optimum.Options{Progress: o.Progress}
	var err error
	if of.Oracle, err = o.data.filesOf(o.data.oracle); err != nil {
		return nil, err
	}
	if of.Analyses, err = o.data.filesOf(o.data.analyses); err != nil {
		return nil, err
	}
	for _, t := range trainings(o.Experiment) {
		c, err := o.training(o.data.folder, t)
		if err != nil {
			return nil, err
		}
		for _, name := range c.Train.Regions {
			if !slices.Contains(of.Regions, name) {
				of.Regions = append(of.Regions, name)
			}
		}
	}
	dates, _, err := trained.ReadDates(ctx, filepath.Join(o.Dir, trainings(o.Experiment)[0].dir()))
	if err != nil {
		return nil, err
	}
	for _, d := range dates {
		level, err := ensemble.ParseLevel(d.Level)
		if err != nil {
			return nil, err
		}
		known, _ := ensemble.VariableNamed(d.Variable)
		t := score.Target{Variable: d.Variable, Level: level, Lead: ensemble.Lead(d.LeadH * float64(time.Hour)), Unit: known.Unit}
		if !slices.Contains(of.Targets, t) {
			of.Targets = append(of.Targets, t)
		}
		at, err := time.Parse(time.RFC3339, d.Init)
		if err != nil {
			return nil, err
		}
		if init := ensemble.InitAt(at); !slices.Contains(of.Inits, init) {
			of.Inits = append(of.Inits, init)
		}
	}
	slices.SortFunc(of.Inits, func(a, b ensemble.Init) int { return a.Compare(b.Time) })
	return of, nil
}

// saveOptimum writes the table of shares, the oracle's scores and the page, and adds their checksums to the record.
//
// Errors: exit 73 and 74.
func (o *Options) saveOptimum(r *record.Record, res *optimum.Result) error {
	for _, name := range []string{"report", oracleFolder} {
		folder := filepath.Join(o.Dir, name)
		if err := filesystem.MkdirAll(folder, 0o777); err != nil {
			return exit.CreateError(folder, err)
		}
	}
	if err := trained.WriteScores(filepath.Join(o.Dir, oracleFolder), res.Oracle); err != nil {
		return err
	}
	if err := table.WriteCSV(filepath.Join(o.Dir, optimumTable), res.Shares); err != nil {
		return err
	}
	p := &report.Page{Title: "Distance from the optimum: " + r.Experiment,
		ChartsTitle: "Learning curves", Charts: res.LearningCurves(),
		Status: []report.Fact{{Name: "experiment", Text: r.Title}, {Name: "trainings", Text: strconv.Itoa(len(r.Runs))}, {Name: "program", Text: r.Machine.Program}}}
	for _, s := range res.Sections() {
		p.Tables = append(p.Tables, report.TableOf(s.Title, s))
	}
	if err := reports.WritePage(filepath.Join(o.Dir, "report"), p); err != nil {
		return err
	}
	files, err := manifest.SumBelow(o.Dir, []string{optimumTable, filepath.Join(oracleFolder, trained.ScoresFile), filepath.Join("report", reports.PageFile)})
	r.Outputs = append(r.Outputs, files...)
	return err
}
