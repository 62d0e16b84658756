package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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

// Timed asks for a log of the time that a training takes to a quality, by the rules of MLPerf HPC.
type Timed struct {
	Log       string  // file; "" keeps none
	Benchmark string  // what is timed
	Target    float64 // loss on the validation starts; the clock stops where it is reached
	Only      bool    // the training too stops there, and leaves a run directory without a model
}

// errAtQuality ends a training that was for its time only.
var errAtQuality = errors.New("the quality is reached")

// clock logs a training. The nil clock does nothing. The clock runs from the beginning: what is read for checksums
// and for values counts, and so does the compilation of the network.
type clock struct {
	*mllog.Log
	file   *os.File
	target float64
	epoch  int  // begun, over all networks
	open   bool // the epoch has not ended
	step   uint64
	began  time.Duration // of the processor's time
}

// newClock begins the log of a training. Of several ranks the leading one has it.
//
// Errors: exit 73 for a log that is there, 73 and 74 if it cannot be written.
func newClock(o Timed, ranks *team.Team) (*clock, error) {
	if o.Log == "" || !ranks.Leads() {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(o.Log), 0o777); err != nil {
		return nil, exit.Create(o.Log, err)
	}
	f, err := os.OpenFile(o.Log, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, exit.Create(o.Log, err)
	}
	c := &clock{Log: mllog.New(f), file: f, target: o.Target, began: processorTime()}
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
	return c, c.fault()
}

// fault is what kept the log from being written.
func (c *clock) fault() error {
	if c == nil || c.Err() == nil {
		return nil
	}
	return exit.Create(c.file.Name(), c.Err())
}

// timeable refuses a run whose beginning was not timed.
func (c *clock) timeable(state rundir.State, dir string) error {
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

// describe logs what is trained, when it is known, and the identity of its run.
func (c *clock) describe(cfg config.Training, of *config.TrainConfig, identity string, train, validation int) error {
	if c == nil {
		return nil
	}
	if validation == 0 {
		return &exit.Error{Code: exit.Usage, What: "there is no quality to reach", At: "data.split.validation", Why: "it has no start", Fix: "give validation starts"}
	}
	c.Stop(stagingKey, c.processor(mllog.Metadata{}))
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
	return c.fault()
}

// begins logs that an epoch begins, if none is under way: pruning may go back within one.
func (c *clock) begins() error {
	if c == nil || c.open {
		return nil
	}
	c.epoch++
	c.open = true
	c.Start("epoch", c.number())
	return c.fault()
}

// validates logs the end of an epoch, before its evaluation.
func (c *clock) validates() {
	if c != nil {
		c.open = false
		c.Stop("epoch", c.number())
		c.Start("eval", c.number())
	}
}

// validated logs a loss after a step, and the end of the run where it is at the target.
func (c *clock) validated(loss float64, step uint64) error {
	if c == nil {
		return nil
	}
	c.step = step
	c.Point(mllog.EvalAccuracy, loss, c.number())
	c.Stop("eval", c.number())
	if loss <= c.target {
		c.ends(mllog.Success)
	}
	return c.fault()
}

func (c *clock) number() mllog.Metadata { return mllog.Metadata{mllog.EpochNum: c.epoch} }

// ends logs the end of the run, with what it took besides time: steps of the optimiser until the last
// validation, and the processor's time.
func (c *clock) ends(status string) {
	c.End(status, c.processor(mllog.Metadata{stepsKey: c.step}))
}

// processor adds the processor's time since the beginning to metadata.
func (c *clock) processor(m mllog.Metadata) mllog.Metadata {
	m[processorKey] = (processorTime() - c.began).Seconds()
	return m
}

// processorTime is what this process and its children that ended have used of the processor.
func processorTime() (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// close ends the log, of a run that did not reach its target too. Of one that failed before it trained nothing is left.
func (c *clock) close(failed error) error {
	if c == nil {
		return nil
	}
	if !c.Ended() {
		c.ends(mllog.Aborted)
	}
	path := c.file.Name()
	err := errors.Join(exit.Create(path, c.file.Sync()), exit.Create(path, c.file.Close()))
	if failed != nil && c.epoch == 0 {
		return errors.Join(err, exit.Create(path, os.Remove(path)))
	}
	return cmp.Or(c.fault(), err)
}

// The facts of a log that are its own: points, and metadata of the run's end.
const (
	stagingKey   = "staging"
	identityKey  = "run_identity"
	threadsKey   = "number_of_threads"
	stepsKey     = "steps"
	processorKey = "processor_s"
)

// Timing is what a log says.
type Timing struct {
	Identity  string // of the run: program, configuration, inputs
	Threads   int
	Reached   bool
	Seconds   float64 // from the start to the end
	Staging   float64 // of them, until all was read
	Processor float64 // seconds of all its cores meanwhile
	Epochs    int     // that were validated, over all networks
	Steps     uint64
	Loss      float64 // the last
}

// ReadTiming reads a log.
//
// Errors: exit 66 if it is not there, 65 if it is damaged or has no end.
func ReadTiming(path string) (*Timing, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, exit.Read(path, err)
	}
	defer f.Close()
	events, err := mllog.Read(f)
	t := &Timing{Processor: math.NaN()}
	if err == nil {
		t.Seconds, t.Reached, err = mllog.Seconds(events)
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the log has no time", At: path, Why: fmt.Sprint(err), Fix: "time the training again with --overwrite always", Err: err}
	}
	var began int64
	for _, e := range events {
		number, _ := e.Value.(float64)
		switch e.Key {
		case identityKey:
			t.Identity, _ = e.Value.(string)
		case mllog.RunStart:
			began = e.TimeMS
		case stagingKey + "_stop":
			t.Staging = float64(e.TimeMS-began) / 1000
		case threadsKey:
			t.Threads = int(number)
		case mllog.EvalAccuracy:
			t.Loss = number
			t.Epochs++
		case mllog.RunStop:
			if s, ok := e.Metadata[processorKey].(float64); ok {
				t.Processor = s
			}
			if n, ok := e.Metadata[stepsKey].(float64); ok {
				t.Steps = uint64(n)
			}
		}
	}
	return t, nil
}
