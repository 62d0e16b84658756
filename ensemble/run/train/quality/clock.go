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

// Options ask for a log of the time that a training takes to a quality, by the rules of MLPerf HPC.
type Options struct {
	Log          string  // file; "" keeps none
	Benchmark    string  // what is timed
	Target       float64 // loss on the validation starts; the clock stops where it is reached
	StopAtTarget bool    // the training too stops there, and leaves a run directory without a model
}

// ErrReached ends a training that is for its time only.
var ErrReached = errors.New("the quality is reached")

// The facts of a log that are its own: points, and metadata of the run's end.
const (
	stagingKey   = "staging"
	identityKey  = "run_identity"
	threadsKey   = "number_of_threads"
	stepsKey     = "steps"
	processorKey = "processor_s"
)

// Clock logs a training. The nil clock does nothing. The clock runs from the beginning: what is read for checksums
// and for values counts, and so does the compilation of the network.
type Clock struct {
	*mllog.Log
	file           *os.File
	target         float64
	epoch          int  // begun, over all networks
	inEpoch        bool // the epoch has not ended
	step           uint64
	processorStart time.Duration // of the processor's time
}

// NewClock begins the log of a training. Of several ranks the leading one has it.
//
// Errors: exit 73 for a log that is there, 73 and 74 if it cannot be written.
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
	c.Point("cache_clear", false, mllog.Metadata{"about": "caches are as the machine has them"})
	c.Start("init", nil)
	c.Stop("init", nil)
	c.Start("run", nil)
	c.Start(stagingKey, nil)
	return c, c.logError()
}

// logError is what kept the log from being written.
func (c *Clock) logError() error {
	if c == nil || c.Err() == nil {
		return nil
	}
	return exit.CreateError(c.file.Name(), c.Err())
}

// CheckFresh refuses a run whose beginning was not timed.
func (c *Clock) CheckFresh(state rundir.State, dir string) error {
	switch {
	case c == nil:
		return nil
	case state == rundir.Complete:
		return &exit.Error{Code: exit.CannotWrite, What: "the run is finished, so nothing can be timed", At: dir, Fix: "choose another --run-dir, or give --overwrite always"}
	case state == rundir.Resuming:
		return &exit.Error{Code: exit.CannotWrite, What: "the run was begun without a log, or by another process", At: dir, Why: "a time to quality is that of one process from its beginning", Fix: "choose another --run-dir, or give --overwrite always"}
	}
	return nil
}

// Describe logs what is trained, when it is known, and the identity of its run.
func (c *Clock) Describe(cfg config.Training, of *config.TrainConfig, identity string, train, validation int) error {
	if c == nil {
		return nil
	}
	if validation == 0 {
		return &exit.Error{Code: exit.Usage, What: "there is no quality to reach", At: "data.split.validation", Why: "it has no start", Fix: "give validation starts"}
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
	// Every key counts as a hyperparameter, and is logged.
	c.Point("configuration_sha256", of.Identity(), nil)
	c.Point(identityKey, identity, nil)
	c.Point(mllog.Target, c.target, mllog.Metadata{"metric": config.ValidationLoss, "better": "lower"})
	return c.logError()
}

// BeginEpoch logs that an epoch begins, if none is under way: pruning may go back within one.
func (c *Clock) BeginEpoch() error {
	if c == nil || c.inEpoch {
		return nil
	}
	c.epoch++
	c.inEpoch = true
	c.Start("epoch", c.epochMetadata())
	return c.logError()
}

// BeginValidation logs the end of an epoch, before its evaluation.
func (c *Clock) BeginValidation() {
	if c != nil {
		c.inEpoch = false
		c.Stop("epoch", c.epochMetadata())
		c.Start("eval", c.epochMetadata())
	}
}

// Validated logs a loss after a step, and the end of the run where it is at the target.
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

func (c *Clock) epochMetadata() mllog.Metadata { return mllog.Metadata{mllog.EpochNum: c.epoch} }

// writeEnd logs the end of the run, with what it took besides time: steps of the optimiser until the last
// validation, and the processor's time.
func (c *Clock) writeEnd(status string) {
	c.End(status, c.addProcessorTime(mllog.Metadata{stepsKey: c.step}))
}

// addProcessorTime adds the processor's time since the beginning to metadata.
func (c *Clock) addProcessorTime(m mllog.Metadata) mllog.Metadata {
	m[processorKey] = (ProcessorTime() - c.processorStart).Seconds()
	return m
}

// ProcessorTime is what this process and its children that ended have used of the processor.
func ProcessorTime() (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// Close ends the log, of a run that did not reach its target too. Of one that failed before it trained nothing is left.
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
