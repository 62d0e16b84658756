package experiment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// timingOptions returns the target quality of the experiment, with the path of the log.
func (o *Options) timingOptions(log string) quality.Options {
	return quality.Options{Log: log, Benchmark: "ensemble_" + o.Experiment.Name, Target: o.Experiment.Quality.Target}
}

// mllogPath is the path of the log of a complete training.
func (o *Options) mllogPath(variant string, seed int) string {
	return filepath.Join(o.Dir, "mllog", fmt.Sprintf("%s-seed-%d.txt", variant, seed))
}

// qualityLogPath is the path of the log of a training to the target quality only.
func (o *Options) qualityLogPath(variant string, seed int) string {
	return filepath.Join(o.Dir, "quality", fmt.Sprintf("%s-seed-%d.txt", variant, seed))
}

// enableTiming enables the log of a training, unless it is finished and logged. An interrupted
// training is repeated, because its time must be that of one process.
func (o *Options) enableTiming(t *train.Options, variant string, seed int) error {
	if !o.MLLog {
		return nil
	}
	log := o.mllogPath(variant, seed)
	_, missing := filesystem.Stat(log)
	if _, err := rundir.ReadManifest(t.RunDir); err == nil && missing == nil && !o.Overwrite {
		return nil
	}
	if err := filesystem.Remove(log); err != nil && missing == nil {
		return exit.CreateError(log, err)
	}
	t.Resume, t.Overwrite = "", true
	t.Timing = o.timingOptions(log)
	return nil
}

// timeToQuality trains every variant with each timed seed to the target quality only, without models
// and scores. Measurements of the same program, settings, data and machine are not repeated.
//
// Errors: those of train.Run.
func (o *Options) timeToQuality(ctx context.Context, r *record.Record, d *dataset) error {
	seeds := o.Experiment.TimedSeeds()
	for _, v := range o.Experiment.Variants {
		for _, seed := range seeds {
			c, err := o.training(d.folder, training{variant: v, seed: seed})
			if err != nil {
				return err
			}
			if r.Machine.Program == "" {
				r.Machine = machineRecord(ctx, o.Version, c.Train.Train.Device, o.Threads)
			}
			if err := o.timeTraining(ctx, c, o.qualityLogPath(v.Name, seed), d, &r.Machine); err != nil {
				return err
			}
		}
	}
	var err error
	r.Quality, err = o.timesToQuality(seeds, o.qualityLogPath)
	return err
}

// timeTraining measures one training. The log is renamed to its final name when complete; the run
// directory is removed afterwards.
func (o *Options) timeTraining(ctx context.Context, c *config.TrainConfig, log string, d *dataset, machine *record.Machine) error {
	if had, err := quality.Read(log); err == nil && !o.Overwrite && had.Threads == c.Train.Train.Threads && had.Identity == manifest.Identity(o.Version, c.Identity(), d.record.Files) && machineDifferences(log, machine) == nil {
		return nil
	}
	dir := log[:len(log)-len(filepath.Ext(log))]
	part := dir + ".part"
	if err := filesystem.RemoveAll(part); err != nil {
		return exit.CreateError(part, err)
	}
	t := train.Options{Config: c, RunDir: dir, Overwrite: true, Version: o.Version, Stop: o.Stop, Timings: o.Timings, Progress: o.Progress, Warn: o.Warn, Timing: o.timingOptions(part)}
	t.Timing.StopAtTarget = true
	if _, err := train.Run(ctx, t); err != nil {
		return err
	}
	if err := writeMachine(log, machine); err != nil {
		return err
	}
	if err := filesystem.Rename(part, log); err != nil {
		return exit.CreateError(log, err)
	}
	return exit.CreateError(dir, filesystem.RemoveAll(dir))
}

// timesToQuality reads the logs of all variants with the given seeds.
func (o *Options) timesToQuality(seeds []int, log func(variant string, seed int) string) (out []record.TimeToQuality, err error) {
	want := o.Experiment.Quality
	for _, v := range o.Experiment.Variants {
		q := record.TimeToQuality{Variant: v.Name, Metric: want.Metric, Target: want.Target, Seeds: seeds, ExpectedEpochs: score.Missing()}
		if len(seeds) >= experimentfile.MinTimedRuns && want.Tolerance > 0 {
			q.ExpectedEpochs, q.Tolerance = score.Number(want.Epochs), want.Tolerance
		}
		for _, seed := range seeds {
			t, err := quality.Read(log(v.Name, seed))
			if err != nil {
				return nil, err
			}
			if !t.Reached {
				t.Seconds = float64(score.Missing())
			}
			q.Seconds, q.Staging, q.Processor = append(q.Seconds, score.Number(t.Seconds)), append(q.Staging, score.Number(t.Staging)), append(q.Processor, score.Number(t.Processor))
			q.Epochs, q.Steps, q.Loss = append(q.Epochs, t.Epochs), append(q.Steps, t.Steps), append(q.Loss, score.Number(t.Loss))
		}
		q.Evaluate()
		out = append(out, q)
	}
	return out, nil
}

// timeTables returns a table for each time-to-quality result.
func timeTables(all []record.TimeToQuality) (out answer.Sections) {
	for i := range all {
		q := &all[i]
		s := answer.Section{Title: fmt.Sprintf("%s: time to a %s of %g", q.Variant, q.Metric, q.Target),
			Columns: slices.Concat(answer.TextColumns("seed"), answer.NumberColumns(fiveDigits, "seconds", "until read", "of processors", "epochs"), answer.NumberColumns("", "steps"), answer.NumberColumns(fiveDigits, "loss"))}
		for k, seconds := range q.Seconds {
			row := []any{nil, seconds, nil, nil, nil, nil, nil}
			if q.Seeds != nil {
				row = []any{q.Seeds[k], seconds, q.Staging[k], q.Processor[k], float64(q.Epochs[k]), q.Steps[k], q.Loss[k]}
			}
			s.Rows = append(s.Rows, row)
		}
		s.Rows = append(s.Rows, []any{"result", q.Result, "", q.ProcessorResult, q.EpochsResult})
		note := "the result is the mean without the fastest and the slowest"
		switch {
		case q.Why != "":
			note = "FAIL: " + q.Why
		case len(q.Seconds) < experimentfile.MinTimedRuns:
			note = fmt.Sprintf("a result takes %d trainings", experimentfile.MinTimedRuns)
		}
		s.Notes = []string{note}
		out = append(out, s)
	}
	return out
}

// sameTimes is the table that compares the times to quality of two records.
func sameTimes(all []record.TimeComparison) answer.Section {
	s := answer.Section{Columns: slices.Concat(answer.TextColumns("to quality"), answer.NumberColumns("", "epochs recorded", "here"), answer.TextColumns("steps and loss"), answer.NumberColumns(fiveDigits, "seconds recorded", "here"))}
	for _, x := range all {
		s.Rows = append(s.Rows, []any{fmt.Sprintf("%s, seed %d", x.Variant, x.Seed), x.EpochsA, x.EpochsB, sameBits(&x.Same), x.SecondsA, x.SecondsB})
	}
	return s
}
