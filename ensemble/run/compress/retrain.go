package compress

import (
	"context"
	"errors"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// RetrainOptions are the inputs of Prune and Distil besides their configuration.
type RetrainOptions struct {
	RunDir    string // output directory
	Resume    string // as train.Options.Resume
	Overwrite bool
	Threads   int // 0: as in the first finished training
	Version   string
	Stop      func() error
	Timings   setup.Timings
	Progress  *progress.Reporter
	Warn      func(string)
}

// RetrainResult is the outcome of Prune and Distil.
type RetrainResult struct {
	*train.Result
	Table *EfficiencyTable // original networks, the new one, and others to compare
}

// retrain trains a network by c with the channels kept (nil: all), and compares it with the networks before
// and beside it.
//
// Errors: those of train.Run.
func retrain(ctx context.Context, c *config.TrainConfig, kept []channels.Kept, before []string, others []config.Path, o RetrainOptions) (*RetrainResult, error) {
	if o.Threads > 0 {
		c.Train.Train.Threads = o.Threads
	}
	trained, err := train.Run(ctx, train.Options{Config: c, RunDir: o.RunDir, Resume: o.Resume, Overwrite: o.Overwrite, Version: o.Version, Stop: o.Stop,
		Timings: o.Timings, Progress: o.Progress, Warn: o.Warn, Channels: kept})
	if err != nil {
		return nil, err
	}
	runs := append(before, o.RunDir)
	for _, dir := range others {
		runs = append(runs, string(dir))
	}
	table, err := compareEfficiency(ctx, c, runs, o.Timings)
	if err != nil {
		return nil, err
	}
	lease, err := rundir.TakeLease(o.RunDir) // which train has released
	if err != nil {
		return nil, err
	}
	return &RetrainResult{trained, table}, errors.Join(lease.Guard(func() error { return table.save(o.RunDir) }), lease.Release())
}
