package quality

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
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
// compilation count. A nil Clock does nothing.
type Clock struct {
	*mllog.Log
	file           *os.File
	target         float64
	epoch          int  // started, over all networks
	inEpoch        bool // an epoch has started and not ended
	step           uint64
	processorStart time.Duration // processor time at the start
}

// NewClock starts the log of a training on rank 0; it is nil on other ranks and without Options.Log.
//
// Errors: exit 73 if the file exists; 73 and 74 if it cannot be written.
func NewClock(o Options, ranks *team.Team) (*Clock, error) {
	if o.Log == "" || !ranks.IsRoot() {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Log), 0o777); err != nil {
		return nil, exit.CreateError(o.Log, err)
	}
	f, err := os.OpenFile(o.Log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit.CreateError(o.Log, err)
	}
	c := &Clock{Log: mllog.New(f), file: f, target: o.Target, processorStart: ProcessorTime()}
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
	return c, c.logError()
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

// Describe logs the hyperparameters and the identity of the run, after all input was read.
//
// Errors: exit 64 without validation samples.
func (c *Clock) Describe(cfg config.Training, of *config.TrainConfig, identity string, train, validation int) error {
	if c == nil {
		return nil
	}
	if validation == 0 {
		return &exit.Error{Code: exit.Usage, What: "no target loss without validation samples", At: "data.split.validation", Why: "the validation period contains no initialisation", Fix: "set data.split.validation"}
	}
	c.Stop(stagingKey, c.addProcessorTime(mllog.Metadata{}))
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
	c.Point(threadsKey, cfg.Threads, nil)
	c.Point("precision", cfg.Precision, nil)
	// MLPerf requires all hyperparameters: the checksum covers every key of the configuration.
	c.Point("configuration_sha256", of.Identity(), nil)
	c.Point(identityKey, identity, nil)
	c.Point(mllog.Target, c.target, mllog.Metadata{"metric": config.ValidationLoss, "better": "lower"})
	return c.logError()
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

// BeginValidation logs the end of an epoch and the start of its evaluation.
func (c *Clock) BeginValidation() {
	if c != nil {
		c.inEpoch = false
		c.Stop("epoch", c.epochMetadata())
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
	if loss <= c.target {
		c.writeEnd(mllog.Success)
	}
	return c.logError()
}

// epochMetadata is the metadata of the current epoch.
func (c *Clock) epochMetadata() mllog.Metadata { return mllog.Metadata{mllog.EpochNum: c.epoch} }

// writeEnd logs the end of the run, with the optimiser steps until the last validation and the processor time.
func (c *Clock) writeEnd(status string) {
	c.End(status, c.addProcessorTime(mllog.Metadata{stepsKey: c.step}))
}

// addProcessorTime adds the processor time since the start to metadata.
func (c *Clock) addProcessorTime(m mllog.Metadata) mllog.Metadata {
	m[processorKey] = (ProcessorTime() - c.processorStart).Seconds()
	return m
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
// first epoch, the log is removed.
func (c *Clock) Close(failed error) error {
	if c == nil {
		return nil
	}
	if !c.Ended() {
		c.writeEnd(mllog.Aborted)
	}
	path := c.file.Name()
	err := errors.Join(exit.CreateError(path, c.file.Sync()), exit.CreateError(path, c.file.Close()))
	if failed != nil && c.epoch == 0 {
		return errors.Join(err, exit.CreateError(path, os.Remove(path)))
	}
	return cmp.Or(c.logError(), err)
}
