package quality

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/config/experimentfile"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"golang.org/x/sys/unix"
)

// Options configure the log of a timed training. The zero value logs nothing.
type Options struct {
	Log          string  // new file; "" for none
	Benchmark    string  // name of the benchmark in the log
	Target       float64 // validation loss at which the clock stops
	StopAtTarget bool    // end the training at the target, without a model
}

// ErrReached ends a training with Options.StopAtTarget.
var ErrReached = errors.New("the target loss is reached")

// Keys that MLPerf does not define: points, and metadata of run_stop.
const (
	stagingKey   = "staging"
	identityKey  = "run_identity"
	threadsKey   = "number_of_threads"
	stepsKey     = "steps"
	processorKey = "processor_s"
)

// Clock logs the time of a training. It runs from the start of the process's work: checksums, reading and
// compilation count. Rank 0 writes the log; the other ranks, whose Log is nil, add their processor time. A nil Clock does
// nothing.
type Clock struct {
	*mllog.Log
	file           filesystem.File
	ranks          *team.Team
	processor      func() time.Duration // of this process
	ended          bool
	target         float64
	epoch          int  // started, over all networks
	inEpoch        bool // an epoch has started and not ended
	step           uint64
	processorStart time.Duration // processor time at the start
}

// NewClock starts the log of a training on rank 0, and the clocks of the other ranks; it is nil without Options.Log, of which
// that of rank 0 counts. All ranks call it.
//
// Errors: exit 73 if the file exists; 73 and 74 if it cannot be written; lost ranks.
func NewClock(o Options, ranks *team.Team) (*Clock, error) {
	var err error
	if o.Log, err = team.Broadcast(ranks, o.Log); err != nil || o.Log == "" {
		return nil, err
	}
	c := &Clock{ranks: ranks, processor: ProcessorTime, target: o.Target, processorStart: ProcessorTime()}
	if ranks.IsRoot() {
		err = c.open(o)
	}
	if err := ranks.AgreeOnError(err); err != nil {
		return nil, err
	}
	return c, nil
}

// open opens the log and writes its first events.
func (c *Clock) open(o Options) error {
	if err := filesystem.MkdirAll(filepath.Dir(o.Log), 0o777); err != nil {
		return exit.CreateError(o.Log, err)
	}
	f, err := filesystem.OpenFile(o.Log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return exit.CreateError(o.Log, err)
	}
	c.Log, c.file = mllog.New(f), f
	c.Point("submission_benchmark", o.Benchmark, nil)
	c.Point("submission_org", "ensemble", nil)
	c.Point("submission_platform", "unknown", nil)
	c.Point("submission_division", "open", nil)
	c.Point("submission_status", "research", nil)
	c.Point("cache_clear", false, mllog.Metadata{"about": "caches of the machine are not cleared"})
	c.Start("init", nil)
	c.Stop("init", nil)
	c.Start("run", nil)
	c.Start(stagingKey, nil)
	return c.logError()
}

// logError returns the first write error of the log.
func (c *Clock) logError() error {
	if c == nil || c.Err() == nil {
		return nil
	}
	return exit.CreateError(c.file.Name(), c.Err())
}

// CheckFresh checks that the run is fresh: the time to quality is that of one process from its beginning.
//
// Errors: exit 73.
func (c *Clock) CheckFresh(state rundir.State, dir string) error {
	switch {
	case c == nil:
		return nil
	case state == rundir.Complete:
		return &exit.Error{Code: exit.CannotWrite, What: "a finished run cannot be timed", At: dir, Fix: "choose another --run-dir, or give --overwrite always"}
	case state == rundir.Resuming:
		return &exit.Error{Code: exit.CannotWrite, What: "a resumed run cannot be timed", At: dir, Why: "time to quality is that of one process from its start", Fix: "choose another --run-dir, or give --overwrite always"}
	}
	return nil
}

// Describe logs the hyperparameters, ranks and identity of the run, after all input was read. All ranks call it.
//
// Errors: exit 64 without validation samples; lost ranks.
func (c *Clock) Describe(cfg config.Training, of *config.TrainConfig, identity string, train, validation int) error {
	if c == nil {
		return nil
	}
	if validation == 0 {
		return &exit.Error{Code: exit.Usage, What: "no target loss without validation samples", At: "data.split.validation", Why: "the validation period contains no initialisation", Fix: "set data.split.validation"}
	}
	spent, err := c.processorTime()
	if err != nil {
		return err
	}
	c.Stop(stagingKey, mllog.Metadata{processorKey: spent})
	if err := c.describeRanks(cfg); err != nil {
		return err
	}
	c.Point("seed", cfg.Seed, nil)
	c.Point("global_batch_size", cfg.BatchSize*cfg.Accumulate, nil)
	c.Point("gradient_accumulation_frequency", cfg.Accumulate, nil)
	c.Point("train_samples", train, nil)
	c.Point("eval_samples", validation, nil)
	c.Point("opt_name", string(optim.Kind(cfg.Optimizer)), nil)
	c.Point("opt_base_learning_rate", cfg.LearningRate, nil)
	c.Point("opt_learning_rate_warmup_steps", cfg.Warmup, nil)
	c.Point("opt_weight_decay", cfg.WeightDecay, nil)
	c.Point("opt_gradient_clip_norm", cfg.Clip, nil)
	c.Point("scheduler_type", cfg.Schedule, nil)
	c.Point("max_epochs", cfg.Epochs, nil)
	c.Point("networks", cfg.Networks, nil)
	c.Point("precision", cfg.Precision, nil)
	// MLPerf requires all hyperparameters: the checksum covers every key of the configuration.
	c.Point("configuration_sha256", of.Identity(), nil)
	c.Point(identityKey, identity, nil)
	c.Point(mllog.Target, c.target, mllog.Metadata{"metric": experimentfile.ValidationLoss, "better": "lower"})
	return c.logError()
}

// describeRanks logs the ranks of the job, their mesh, nodes and threads.
func (c *Clock) describeRanks(cfg config.Training) error {
	threads, err := c.ranks.Sum(float64(cfg.Threads))
	if err != nil {
		return err
	}
	processes, mesh, nodes := 1, "", map[string]bool{}
	host, _ := os.Hostname() // "" counts as one node
	if c.ranks != nil {
		processes, mesh = team.ProcessCount(c.ranks.Comm), c.ranks.Division()
		hosts, err := team.AllGather(c.ranks.Comm, host)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			nodes[h] = true
		}
	}
	nodes[host] = true
	c.Point("number_of_ranks", c.ranks.Size(), mllog.Metadata{"processes": processes})
	c.Point("number_of_nodes", len(nodes), nil)
	c.Point("mesh", mesh, nil)
	c.Point(threadsKey, cfg.Threads, mllog.Metadata{"of": "each rank", "all_ranks": int(threads)})
	return nil
}

// BeginEpoch logs the start of an epoch, unless one has started: lottery pruning can rewind within an epoch.
func (c *Clock) BeginEpoch() error {
	if c == nil || c.inEpoch {
		return nil
	}
	c.epoch++
	c.inEpoch = true
	c.Start("epoch", c.epochMetadata())
	return c.logError()
}

// EndEpoch logs the end of an epoch whose loss is no result, as those of pre-training.
func (c *Clock) EndEpoch() {
	if c != nil {
		c.inEpoch = false
		c.Stop("epoch", c.epochMetadata())
	}
}

// BeginValidation logs the end of an epoch and the start of its evaluation.
func (c *Clock) BeginValidation() {
	if c != nil {
		c.EndEpoch()
		c.Start("eval", c.epochMetadata())
	}
}

// Validated logs the validation loss after a step, and the end of the run if it reaches the target.
func (c *Clock) Validated(loss float64, step uint64) error {
	if c == nil {
		return nil
	}
	c.step = step
	c.Point(mllog.EvalAccuracy, loss, c.epochMetadata())
	c.Stop("eval", c.epochMetadata())
	if loss <= c.target && !c.ended { // all ranks have the same loss
		spent, err := c.processorTime()
		if err != nil {
			return err
		}
		c.writeEnd(mllog.Success, mllog.Metadata{processorKey: spent})
	}
	return c.logError()
}

// epochMetadata is the metadata of the current epoch.
func (c *Clock) epochMetadata() mllog.Metadata { return mllog.Metadata{mllog.EpochNum: c.epoch} }

// writeEnd logs the end of the run, with the optimiser steps until the last validation.
func (c *Clock) writeEnd(status string, m mllog.Metadata) {
	c.ended = true
	m[stepsKey] = c.step
	c.End(status, m)
}

// processorTime returns the processor time since the start in seconds, summed over all processes. All ranks call it.
func (c *Clock) processorTime() (float64, error) {
	own := 0.0
	if c.ranks.IsProcessRoot() {
		own = (c.processor() - c.processorStart).Seconds()
	}
	return c.ranks.Sum(own)
}

// ProcessorTime is the user and system time of this process and its terminated children.
func ProcessorTime() (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// Close ends the log, with status "aborted" if the target was not reached. If the training failed before its
// first epoch, the log is removed. After a failure, when ranks no longer exchange messages, the log has no processor time. All
// ranks call it.
func (c *Clock) Close(failed error) error {
	if c == nil {
		return nil
	}
	if !c.ended {
		m := mllog.Metadata{}
		if failed == nil {
			spent, err := c.processorTime()
			if err != nil {
				return err
			}
			m[processorKey] = spent
		}
		c.writeEnd(mllog.Aborted, m)
	}
	if c.file == nil {
		return nil
	}
	path := c.file.Name()
	err := errors.Join(exit.CreateError(path, c.file.Sync()), exit.CreateError(path, c.file.Close()))
	if failed != nil && c.epoch == 0 {
		return errors.Join(err, exit.CreateError(path, filesystem.Remove(path)))
	}
	return cmp.Or(c.logError(), err)
}
