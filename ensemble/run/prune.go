package run

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// PruneOptions says which training to prune, and where the result goes.
type PruneOptions struct {
	Config    *config.PruneConfig
	RunDir    string // of the pruned network
	Resume    string // as of a training
	Overwrite bool
	Threads   int // 0: those of the training
	Version   string
	Stop      func() error
	Timings   Timings
	Progress  *progress.Reporter
	Warn      func(string)
}

// PruneResult says what came of it.
type PruneResult struct {
	*TrainResult
	Table *EfficiencyTable // the network before and after, and those beside it
}

// Prune removes parts of the network of a finished training in rounds, with training between them, and
// leaves a run directory like that of a training. It compares the networks on the validation starts.
//
// Errors: 64 for a run that is no training of one network, and for a goal that cannot be reached; those
// of Train.
func Prune(ctx context.Context, o PruneOptions) (*PruneResult, error) {
	from := string(o.Config.From)
	c, kept, err := prunedTraining(o.Config, from)
	if err != nil {
		return nil, err
	}
	if o.Threads > 0 {
		c.Train.Train.Threads = o.Threads
	}
	trained, err := Train(ctx, TrainOptions{Config: c, RunDir: o.RunDir, Resume: o.Resume, Overwrite: o.Overwrite, Version: o.Version, Stop: o.Stop,
		Timings: o.Timings, Progress: o.Progress, Warn: o.Warn, kept: kept})
	if err != nil {
		return nil, err
	}
	runs := []string{from, o.RunDir}
	for _, dir := range o.Config.Beside {
		runs = append(runs, string(dir))
	}
	table, err := compareEfficiency(ctx, c, runs)
	if err != nil {
		return nil, err
	}
	return &PruneResult{trained, table}, table.save(o.RunDir)
}

// prunedTraining is the configuration of the training that prunes a run, and what is left of its network's
// channels.
func prunedTraining(c *config.PruneConfig, from string) (*config.TrainConfig, []channels.Kept, error) {
	_, starts, err := finishedTraining(from)
	if err != nil {
		return nil, nil, err
	}
	m, f, err := model.LoadReference(filepath.Join(from, "model"))
	if err != nil {
		return nil, nil, err
	}
	if m.Spec.Shares() {
		return nil, nil, &exit.Error{Code: exit.Usage, What: "a network whose layers share parameters cannot be pruned", At: from,
			Why: "a weight of a store that becomes 0 would be so in many places of many layers", Fix: "prune a network that was trained without model.share"}
	}
	weights := filepath.Join(from, "model", fmt.Sprintf(model.WeightsFormat, 0))
	if f.Networks != 1 || m.Spec.Staged() {
		return nil, nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("a run of %d networks, method %q, cannot be pruned", f.Networks, cmp.Or(m.Spec.Method, config.JointMethod)), At: from,
			Why: "each network would lose other parts", Fix: "train one network (train.networks: 1, model.method: joint), and prune that"}
	}
	for path, name := range map[*string]string{&weights: weights, &from: from} { // from where the configuration is read does not matter
		if *path, err = filepath.Abs(name); err != nil {
			return nil, nil, exit.Read(name, err)
		}
	}
	t, err := c.Training(filepath.Join(from, "config.effective.yaml"), weights, starts)
	return t, m.Spec.Kept, err
}

// finishedTraining is the number of training starts of a run.
//
// Errors: 66 for what has not ended, 64 for runs of other commands.
func finishedTraining(dir string) (record *rundir.Manifest, starts int, err error) {
	if record, err = finished(dir); err != nil {
		return nil, 0, err
	}
	n, ok := record.Details["starts_train"].(float64)
	if record.Command != "train" || !ok {
		return nil, 0, &exit.Error{Code: exit.Usage, What: "it is no training", At: dir, Why: fmt.Sprintf("it was made by %q", record.Command), Fix: "name the folder of a finished training"}
	}
	return record, int(n), nil
}
