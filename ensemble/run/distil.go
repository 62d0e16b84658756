package run

import (
	"context"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// DistilOptions says which trainings teach, and where the student goes.
type DistilOptions struct {
	Config    *config.DistilConfig
	RunDir    string // of the student
	Resume    string // as of a training
	Overwrite bool
	Threads   int // 0: those of the teacher's training
	Version   string
	Stop      func() error
	Timings   Timings
	Progress  *progress.Reporter
	Warn      func(string)
}

// DistilResult says what came of it.
type DistilResult struct {
	*TrainResult
	Table *EfficiencyTable // the teachers, the student, and those beside it
}

// Distil trains a network on the data of finished trainings, and on the distributions that these predict, and leaves a run
// directory like that of a training. It compares the networks on the validation starts.
//
// Errors: 66 for a teacher that is not finished, 64 for one that cannot teach the student; those of Train.
func Distil(ctx context.Context, o DistilOptions) (*DistilResult, error) {
	var teachers []string
	for _, dir := range o.Config.From {
		if _, _, err := finishedTraining(string(dir)); err != nil {
			return nil, err
		}
		path, err := filepath.Abs(string(dir)) // from where the configuration is read does not matter
		if err != nil {
			return nil, exit.Read(string(dir), err)
		}
		teachers = append(teachers, path)
	}
	c, err := o.Config.Training(filepath.Join(teachers[0], "config.effective.yaml"), teachers)
	if err != nil {
		return nil, err
	}
	if o.Threads > 0 {
		c.Train.Train.Threads = o.Threads
	}
	trained, err := Train(ctx, TrainOptions{Config: c, RunDir: o.RunDir, Resume: o.Resume, Overwrite: o.Overwrite, Version: o.Version, Stop: o.Stop,
		Timings: o.Timings, Progress: o.Progress, Warn: o.Warn})
	if err != nil {
		return nil, err
	}
	runs := append(teachers, o.RunDir)
	for _, dir := range o.Config.Beside {
		runs = append(runs, string(dir))
	}
	table, err := compareEfficiency(ctx, c, runs)
	if err != nil {
		return nil, err
	}
	return &DistilResult{trained, table}, table.save(o.RunDir)
}
