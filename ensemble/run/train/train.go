package train

import (
	"context"
	"errors"
	"time"

	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Options are the inputs of [Run]. Config and RunDir are required.
type Options struct {
	Config *config.TrainConfig // the training, as config.LoadTrain reads it
	RunDir string              // output directory
	// Resume continues an interrupted run: "auto" from the newest complete checkpoint, a number from the
	// checkpoint after that step. Empty does not resume: an existing run is an error.
	Resume    string
	Overwrite bool   // replace an existing run
	Version   string // version of the program, for the manifest
	// Stop is called between steps; if it returns an error, Run saves a checkpoint and returns that error. Nil
	// never stops. Cancel the context to interrupt reading and scoring, which have no state to save; it does not
	// interrupt training steps.
	Stop func() error
	// BeforeStep is called on each rank before it computes a step, counted from 0. A measurement of slow ranks delays some
	// in it. Nil does nothing.
	BeforeStep func(step uint64)
	Timings    setup.Timings      // measured times of kernels; the zero value keeps none
	Progress   *progress.Reporter // nil shows nothing
	Warn       func(string)       // receives warnings, which the manifest lists too; nil drops them
	Timing     quality.Options    // log of the time to a target loss (MLPerf HPC); only for a fresh run

	// Baselines is the directory of a finished run without warnings whose data, split and `baselines` are the same. Its fits
	// are used, if model.reference needs no others. Empty fits anew, with the same bits.
	Baselines string
	Channels  []channels.Kept // channels kept from the pretrained network; nil: all

	now func() time.Time // clock of checkpoints; nil: time.Now
}

// clock returns the clock that determines when checkpoints are due.
func (o *Options) clock() func() time.Time {
	if o.now == nil {
		return time.Now
	}
	return o.now
}

// Result is the outcome of a training.
type Result struct {
	RunDir   string              // Options.RunDir
	Complete bool                // the run was finished before, and nothing was done
	Steps    uint64              // optimiser steps of all networks
	Input    samples.InputTiming // how long steps waited for input, and where samples came from
	Scores   *score.Result       // on the test samples; nil if there are none
	Sparsity []model.Sparsity    // sparsity of each network; nil if nothing was pruned
	StepCost float64             // mean time of a step relative to one of whole fields; NaN if none had these
	Sharing  *sharing.Plan       // parameter sharing within each network; nil if none
	Outputs  []string            // paths of the files that the manifest lists
	Warnings []string            // also in the manifest
}

// Run trains the networks of a configuration, scores them on the test initialisations and writes a run
// directory. If the run is finished, it only reports so (Result.Complete).
//
// Reads: forecasts and analyses of o.Config, or its sample store; auxiliary fields, pretrained weights and
// teachers that it names.
// Writes: model/ (network, weights, baselines, calibration), checkpoints/, events.jsonl, environment.json,
// config.effective.yaml, scores.json and tables of scores, report/ and manifest.json, which is written last.
// Returns: scores of the test initialisations and the paths of the written files.
//
// Under an MPI launcher all ranks train together. Rank 0 writes the run directory and computes scores; the
// other ranks return a result without outputs. If the mesh has more ranks than the job has processes,
// each process hosts several ranks; a single process hosts all of them.
//
// Errors: exit 1 if the loss, or the output of the trained network, is not finite; 64 for a configuration that does not match the data, and for srun
// tasks that cannot join one MPI job; 65 and 66 for damaged and missing data; 69 for a device or kernel that
// is not available; 71 if a rank is lost; 64, 65 and 69 if one disagrees with rank 0; 73 if the run directory is in use; 74 for
// I/O; 75 after Options.Stop, with a checkpoint saved.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if err := team.CheckJoined("each task would train separately in the same run directory"); err != nil {
		return nil, err
	}
	processes, launched := team.LaunchedProcesses()
	hosted, misfit := setup.HostedRanks(o.Config, processes)
	if !launched {
		if misfit != nil {
			return nil, misfit
		}
		if hosted <= 1 {
			return RunRank(ctx, o, nil)
		}
	}
	_, err = team.RunRanks(0, hosted, o.Config.Train.Train.StallTimeout, func(c *comm.Comm) error {
		ranks := team.New(c)
		if err := ranks.AgreeOnError(misfit); err != nil {
			return err
		}
		own, err := RunRank(ctx, o.ForRank(ranks), ranks)
		if ranks.IsProcessRoot() {
			r = own
		}
		return err
	})
	return r, err
}

// RunRank trains as one rank of a team, and closes its MLPerf log. ranks is nil for a single process.
//
// Errors: as [Run].
func RunRank(ctx context.Context, o Options, ranks *team.Team) (*Result, error) {
	timed, err := quality.NewClock(o.Timing, ranks)
	if err != nil {
		return nil, err
	}
	r, err := trainRank(ctx, o, ranks, timed)
	if ended := timed.Close(err); err == nil {
		err = ended
	}
	return r, err
}

// trainRank runs the stages of a training on one rank: open, read, prepare, then those of runStages.
func trainRank(ctx context.Context, o Options, ranks *team.Team, timed *quality.Clock) (r *Result, err error) {
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	ctx = progress.With(ctx, o.Progress)
	run, err := openTrainingRun(ctx, o, ranks, timed)
	if err != nil {
		return nil, err
	}
	if run.state == rundir.Complete {
		return &Result{RunDir: o.RunDir, Complete: true}, ranks.AgreeOnError(timed.CheckFresh(run.state, o.RunDir))
	}
	defer func() { err = errors.Join(err, run.dir.Close()) }()
	if err := ranks.AgreeOnError(errors.Join(timed.CheckFresh(run.state, o.RunDir), run.checkResume(o))); err != nil {
		return nil, err
	}
	d, err := readData(ctx, o.Config, run)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	t, err := prepare(ctx, o, run, d)
	if err != nil {
		return nil, err
	}
	defer t.inputs.teacher.close()
	return t.runStages(ctx, o, run)
}

// runStages resumes from a checkpoint if one exists, then runs the stages loop, calibrate, evaluate and record.
func (t *trainer) runStages(ctx context.Context, o Options, run *trainingRun) (*Result, error) {
	resumed, err := t.startOrResume(o, run.state)
	if err != nil {
		return nil, err
	}
	if err := t.observers.Reads(t.pos, "prepare", t.data); err != nil {
		return nil, err
	}
	o.warn(t.ranks, t.data.Warnings)
	if t.ranks.IsRoot() {
		t.warn = o.Warn
	}
	before := len(t.data.Warnings)
	task := o.Progress.Start("train", int64(t.totalSteps(t.trainings)))
	t.observers.report = func(done int, note string) { task.Set(int64(done), note) }
	err = t.loop(context.WithoutCancel(ctx))
	task.Done()
	o.warn(t.ranks, t.data.Warnings[before:])
	if o.Timing.StopAtTarget && (err == nil || errors.Is(err, quality.ErrReached)) {
		return &Result{RunDir: o.RunDir, Steps: t.pos.Step, Input: t.observers.input.Result(), Warnings: t.data.Warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.calibrate(ctx, o); err != nil {
		return nil, divergedNetwork(err)
	}
	verdict, err := t.evaluate(ctx, o)
	if err != nil {
		return nil, divergedNetwork(err)
	}
	if err := t.observers.Reads(t.pos, "evaluate", t.data); err != nil {
		return nil, err
	}
	if t.observers.input.Counts, err = t.data.ReadCounts(); err != nil {
		return nil, err
	}
	return t.record(o, run, verdict, resumed)
}

// divergedNetwork makes of an output of the trained network that is not finite the error of a training that diverged:
// losses were finite, but weights or activations are too large for other initialisations.
func divergedNetwork(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) || e.What != model.NotFinite {
		return err
	}
	return &exit.Error{Code: exit.No, What: "the output of the trained network is not finite", At: e.At, Why: e.Why + ": the network diverged, or this initialisation has invalid values",
		Fix: "lower train.learning_rate, set train.clip, or check the fields with `ensemble inspect --stats`", Err: err}
}

// warn passes warnings to Options.Warn on rank 0.
func (o Options) warn(ranks *team.Team, warnings []string) {
	if o.Warn == nil || !ranks.IsRoot() {
		return
	}
	for _, w := range warnings {
		o.Warn(w)
	}
}

// ForRank returns the options of one rank of a process. Only the first rank of a process handles Stop, Progress and Warn.
func (o Options) ForRank(t *team.Team) Options {
	if !t.IsProcessRoot() {
		o.Stop, o.Progress, o.Warn = nil, nil, nil
	}
	return o
}
