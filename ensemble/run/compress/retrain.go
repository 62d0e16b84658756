package compress

import (
	"context"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// RetrainOptions says where a training that begins with finished ones goes, and how.
type RetrainOptions struct {
	RunDir    string // of the new network
	Resume    string // as of a training
	Overwrite bool
	Threads   int // 0: those of the first finished training
	Version   string
	Stop      func() error
	Timings   setup.Timings
	Progress  *progress.Reporter
	Warn      func(string)
}

// RetrainResult says what came of it.
type RetrainResult struct {
	*train.Result
	Table *EfficiencyTable // the networks before, the new one, and those beside it
}

// retrain trains by c a network of which the channels kept are left, nil for all, and compares it with those before and
// beside it.
//
// Errors: those of Train.
func retrain(ctx context.Context, c *config.TrainConfig, kept []channels.Kept, before []string, beside []config.Path, o RetrainOptions) (*RetrainResult, error) {
	if o.Threads > 0 {
		c.Train.Train.Threads = o.Threads
	}
	trained, err := train.Run(ctx, train.Options{Config: c, RunDir: o.RunDir, Resume: o.Resume, Overwrite: o.Overwrite, Version: o.Version, Stop: o.Stop,
		Timings: o.Timings, Progress: o.Progress, Warn: o.Warn, Channels: kept})
	if err != nil {
		return nil, err
	}
	runs := append(before, o.RunDir)
	for _, dir := range beside {
		runs = append(runs, string(dir))
	}
	table, err := compareEfficiency(ctx, c, runs)
	if err != nil {
		return nil, err
	}
	return &RetrainResult{trained, table}, table.save(o.RunDir)
}
