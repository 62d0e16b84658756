package train

import (
	"context"
	"errors"
	"fmt"
	"os"

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
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// Options says what to train and where.
type Options struct {
	Config *config.TrainConfig
	RunDir string
	// Resume goes on with a run that was begun: "auto" from the newest whole
	// checkpoint, a number from the checkpoint of that step, "" not at all.
	Resume    string
	Overwrite bool // begin again where a run is already
	Version   string
	// Stop is asked between steps; an error saves the state and is returned.
	// nil never stops. Cancel the context to stop reading and judging, which have
	// nothing to save; it does not end the steps between.
	Stop     func() error
	Timings  setup.Timings      // of kernels
	Progress *progress.Reporter // nil shows nothing
	Warn     func(string)       // nil drops warnings; they are in the manifest too
	Timing   quality.Options    // to a quality; a run that goes on or is finished cannot be

	Channels []channels.Kept // that are left of the network with whose weights it begins
}

// Result says what came of a training.
type Result struct {
	RunDir   string
	Complete bool // the run was finished before; nothing was done
	Steps    uint64
	Input    samples.InputTiming
	Scores   *score.Result    // on the test starts; nil if there are none
	Sparsity []model.Sparsity // of the networks; none if nothing was pruned
	Sharing  *sharing.Plan    // of the parameters of each network; nil if none are shared
	Outputs  []string         // paths of the files that the manifest vouches for
	Warnings []string
}

// Run trains the networks of a configuration, judges them on the test starts,
// and leaves a run directory: the model, checkpoints, events, scores.
//
// Errors: 64 for a configuration that does not fit the data, 65 and 66 for the
// data, 73 for a run directory in use, 75 after a stop, with the state saved.
//
// Started by an MPI launcher, all its ranks train together; rank 0 writes the run
// directory and judges, and the others give a result without outputs. A mesh of more parts
// than ranks is dealt out to them, and a process alone computes all parts.
//
// Errors there: 71 for a rank that was lost or does not agree with rank 0. Error 64 for
// tasks of srun that cannot be ranks of one job.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if n := mpi.UnjoinedTasks(os.Getenv); n > 0 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("srun started %d tasks without an interface of MPI", n),
			Why: "each would be a training of its own, all in one run directory", Fix: "srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH"}
	}
	parts, err := setup.MeshParts(o.Config.Train.Train.Mesh)
	if _, launched := mpi.Launched(os.Getenv); !launched {
		if err != nil {
			return nil, err
		}
		if parts <= 1 {
			return RunRank(ctx, o, nil)
		}
	} // ranks find together that they have no mesh
	_, err = team.RunRanks(0, parts, o.Config.Train.Train.StallTimeout, func(c *comm.Comm) error {
		ranks := team.New(c)
		own, err := RunRank(ctx, o.ForPart(ranks), ranks)
		if ranks.IsProcessRoot() {
			r = own
		}
		return err
	})
	return r, err
}

// RunRank trains as one rank of a team, and ends the log of its time.
func RunRank(ctx context.Context, o Options, ranks *team.Team) (*Result, error) {
	timed, err := quality.NewClock(o.Timing, ranks)
	if err := ranks.AgreeOnError(err); err != nil {
		return nil, err
	}
	r, err := trainRank(ctx, o, ranks, timed)
	if ended := timed.Close(err); err == nil {
		err = ended
	}
	return r, err
}

// trainRank trains as one rank of a team, with a clock where its time is logged. The stages stand in files of
// their names: open, read, prepare, then those of run.
func trainRank(ctx context.Context, o Options, ranks *team.Team, timed *quality.Clock) (*Result, error) {
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	run, err := openTrainingRun(o, ranks, timed)
	if err != nil {
		return nil, err
	}
	if run.state == rundir.Complete {
		return &Result{RunDir: o.RunDir, Complete: true}, timed.CheckFresh(run.state, o.RunDir)
	}
	defer run.dir.Close()
	if err := ranks.AgreeOnError(timed.CheckFresh(run.state, o.RunDir)); err != nil {
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

// runStages goes to where the run was stopped, if it was, and on to its end: loop, calibrate, judge, record.
func (t *trainer) runStages(ctx context.Context, o Options, run *trainingRun) (*Result, error) {
	resumed, err := t.startOrResume(o, run.state)
	if err != nil {
		return nil, err
	}
	o.warn(t.ranks, t.data.Warnings)
	task := o.Progress.Start("train", int64(t.totalSteps(t.trainings)))
	t.observers.report = func(done int, note string) { task.Set(int64(done), note) }
	err = t.loop(context.WithoutCancel(ctx))
	task.Done()
	if o.Timing.StopAtTarget && (err == nil || errors.Is(err, quality.ErrReached)) {
		return &Result{RunDir: o.RunDir, Steps: t.pos.Step, Input: t.observers.input.Result(), Warnings: t.data.Warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := t.calibrate(ctx, o); err != nil {
		return nil, err
	}
	verdict, err := t.evaluate(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	return t.record(o, run, verdict, resumed)
}

// warn shows warnings, on the leading rank.
func (o Options) warn(ranks *team.Team, warnings []string) {
	if o.Warn == nil || !ranks.IsRoot() {
		return
	}
	for _, w := range warnings {
		o.Warn(w)
	}
}

// ForPart are the options of one of the parts of a process: one alone is told to stop, and
// shows what is done.
func (o Options) ForPart(t *team.Team) Options {
	if !t.IsProcessRoot() {
		o.Stop, o.Progress, o.Warn = nil, nil, nil
	}
	return o
}
