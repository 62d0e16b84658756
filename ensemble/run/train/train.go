package train

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
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
	Timed    Timed              // to a quality; a run that goes on or is finished cannot be

	Kept []channels.Kept // that are left of the network with whose weights it begins
}

// Result says what came of a training.
type Result struct {
	RunDir   string
	Complete bool // the run was finished before; nothing was done
	Steps    uint64
	Input    samples.Input
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
	if n := mpi.Apart(os.Getenv); n > 0 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("srun started %d tasks without an interface of MPI", n),
			Why: "each would be a training of its own, all in one run directory", Fix: "srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH"}
	}
	parts, err := setup.PartsOf(o.Config.Train.Train.Mesh)
	if _, launched := mpi.Launched(os.Getenv); !launched {
		if err != nil {
			return nil, err
		}
		if parts <= 1 {
			return RunAs(ctx, o, nil)
		}
	} // ranks find together that they have no mesh
	_, err = team.OnRanks(0, parts, o.Config.Train.Train.StallTimeout, func(c *comm.Comm) error {
		ranks := team.New(c)
		own, err := RunAs(ctx, o.OfPart(ranks), ranks)
		if ranks.Speaks() {
			r = own
		}
		return err
	})
	return r, err
}

// RunAs trains as one rank of a team, and ends the log of its time.
func RunAs(ctx context.Context, o Options, ranks *team.Team) (*Result, error) {
	timed, err := newClock(o.Timed, ranks)
	if err := ranks.Together(err); err != nil {
		return nil, err
	}
	r, err := trainTimed(ctx, o, ranks, timed)
	if ended := timed.close(err); err == nil {
		err = ended
	}
	return r, err
}

// trainTimed trains as one rank of a team, with a clock where its time is logged.
func trainTimed(ctx context.Context, o Options, ranks *team.Team, timed *clock) (*Result, error) {
	c := o.Config
	started := time.Now().UTC()
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	forecastFiles, analysisFiles, err := samples.TrainingFiles(c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ranks.SameProgram(o.Version), ranks.Same("the configuration", c.Identity())); err != nil {
		return nil, err
	}
	auxiliaryFiles, err := input.FilesOf("data.auxiliary.files", c.Data.Auxiliary.Files)
	if err != nil {
		return nil, err
	}
	files := slices.Concat(forecastFiles, analysisFiles, auxiliaryFiles)
	if c.Model.Start != "" {
		files = append(files, string(c.Model.Start))
	}
	if dir := c.Model.ChannelsOf; dir != "" {
		files = append(files, filepath.Join(string(dir), "model", model.File))
	}
	taught, err := teacherFiles(c)
	if err != nil {
		return nil, err
	}
	inputs, err := ranks.Sums(append(files, taught...))
	if err != nil {
		return nil, err
	}
	identity := manifest.Identity(o.Version, c.Identity(), inputs)
	if err := ranks.Same("a file that is read", identity); err != nil {
		return nil, err
	}
	dir, state, err := openRunDir(ranks, o, identity)
	if err != nil {
		return nil, err
	}
	if state == rundir.Complete {
		return &Result{RunDir: o.RunDir, Complete: true}, timed.timeable(state, o.RunDir)
	}
	defer dir.Close()
	if err := ranks.Together(timed.timeable(state, o.RunDir)); err != nil {
		return nil, err
	}
	d, err := samples.ReadData(ctx, c, forecastFiles, analysisFiles, ranks)
	if d != nil {
		defer d.Close()
	}
	if err := ranks.Together(err); err != nil {
		return nil, err
	}
	if err := d.Ranks.Together(checkCalibration(d, c)); err != nil {
		return nil, err
	}
	if err := d.Meet(c); err != nil {
		return nil, err
	}
	d.Inputs = inputs
	d.Warnings = append(c.Warnings(), d.Warnings...)

	t, err := newTrainer(ctx, o, d, dir)
	if err != nil {
		return nil, err
	}
	t.timed, t.clock = o.Timed, timed
	if err := ranks.Together(timed.describe(t.base, c, identity, len(d.Train.Inits), len(d.Validation.Inits))); err != nil {
		return nil, err
	}
	if t.model.Spec.Kept = o.Kept; o.Kept == nil {
		if t.model.Spec.Kept, err = setup.StartChannels(c, &t.model.Task, d.Grid); err != nil {
			return nil, err
		}
	}
	if t.model.Sharing, err = t.model.Spec.SharePlan(&t.model.Task, t.model.Grid); err != nil {
		return nil, err
	}
	if t.teacher, err = newTeacher(c, d); err != nil {
		return nil, err
	}
	defer t.teacher.close()
	t.removal = removalOf(c, t.allSteps(t.turns))
	if err := t.removal.check(t.model.Spec, &t.model.Task, d.Grid); err != nil {
		return nil, err
	}
	from, err := t.enter(o, state, &d.Warnings)
	if err != nil {
		return nil, err
	}
	if o.Warn != nil && ranks.Leads() {
		for _, w := range d.Warnings {
			o.Warn(w)
		}
	}
	task := o.Progress.Start("train", int64(t.allSteps(t.turns)))
	t.report = func(done int, note string) { task.Set(int64(done), note) }
	err = t.run(context.WithoutCancel(ctx))
	task.Done()
	if o.Timed.Only && (err == nil || errors.Is(err, errAtQuality)) {
		return &Result{RunDir: o.RunDir, Steps: t.at.Step, Input: t.input.Result(), Warnings: d.Warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	res := &Result{RunDir: o.RunDir, Steps: t.at.Step, Input: t.input.Result(), Sparsity: t.model.Sparsity, Sharing: t.model.Sharing, Warnings: d.Warnings}
	if err := t.recalibrate(ctx, c.Calibrate, o.Progress); err != nil {
		return nil, err
	}
	if err := t.calibrate(ctx, c.Calibrate, o.Progress); err != nil {
		return nil, err
	}
	if ranks.Leads() {
		err = t.model.Save(dir.File("model"))
	}
	if err := ranks.Together(err); err != nil {
		return nil, err
	}
	late, err := t.input.Warnings(ranks)
	if err != nil {
		return nil, err
	}
	d.Warnings = append(d.Warnings, late...)
	res.Warnings = d.Warnings
	if o.Warn != nil && ranks.Leads() {
		for _, w := range late {
			o.Warn(w)
		}
	}
	var show *scoring.Example
	if len(d.Test.Inits) > 0 {
		eo := model.Options(t.cfg.Threads, t.cfg.Device)
		eo.Timings = t.table
		t.model.Ranks, t.model.Local = ranks, t.local
		if res.Scores, show, err = scoring.Judge(ctx, t.model, d.Test, eo, o.Progress); err != nil {
			return nil, err
		}
	}
	if !ranks.Leads() {
		return res, nil
	}
	if show != nil {
		o.Timings.Save(t.table)
		if err := model.SaveCoupling(dir.File("model"), t.model.Coupling); err != nil {
			return nil, err
		}
		if err := trained.WriteScores(o.RunDir, res.Scores); err != nil {
			return nil, err
		}
		if err := show.Save(o.RunDir); err != nil {
			return nil, err
		}
	}
	if err := dir.Events().Write("done", t.at.Step, 0, rundir.Value{Name: "resumed_from", Value: from}); err != nil {
		return nil, err
	}
	made, err := trained.Outputs(dir, res.Scores != nil)
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		res.Outputs = append(res.Outputs, dir.File(name))
	}
	modelSum, err := trained.ModelChecksum(dir.File("model"))
	if err != nil {
		return nil, err
	}
	return res, rundir.WriteManifest(o.RunDir, rundir.Manifest{
		Record: manifest.Record{Status: manifest.OK, Version: o.Version, ConfigChecksum: "sha256:" + c.Hash(), ModelChecksum: modelSum,
			Start: started, End: time.Now().UTC(), Inputs: inputs, Warnings: d.Warnings},
		Command: "train", Identity: identity,
		Details: map[string]any{"steps": t.at.Step, "determinism": "D1", "members_used": d.Used, "members_full": len(d.All),
			"starts_train": len(d.Train.Inits), "starts_validation": len(d.Validation.Inits), "starts_test": len(d.Test.Inits)},
	}, made)
}

// newTrainer fits the task and the baselines on the training part.
func newTrainer(ctx context.Context, o Options, d *samples.Data, dir *rundir.Dir) (*trainer, error) {
	c := o.Config
	if err := input.CheckPlaces(c, d.Grid); err != nil {
		return nil, err
	}
	task := setup.TaskOf(c)
	task.Used, task.Least, task.Full = d.Used, c.Data.Members.Least, len(d.All)
	task.Score = make([]float64, len(task.Targets)*len(d.Axes.Levels))
	for v, of := range task.Targets {
		for _, t := range c.Data.Targets {
			for _, l := range t.Levels {
				if t.Variable == of.Variable {
					task.Score[v*len(d.Axes.Levels)+slices.Index(d.Axes.Levels, l)] = 1
				}
			}
		}
		if w := c.Train.Train.Loss.Leads; w != nil {
			task.LeadWeights = append(task.LeadWeights, w[slices.Index(c.Data.TargetLeads, of.Lead)])
		}
	}
	// Baselines may use what the network is chosen by as well: both see all dates
	// before the test.
	past := d.Past()
	for statistic, inits := range map[string][]ensemble.Init{"normaliser": d.Train.Inits, "baseline": past.Inits} {
		if err := d.Split.CheckFitted(statistic, setup.ValidsOf(inits, c.Data.TargetLeads), c.Data.TargetLeads); err != nil {
			return nil, err
		}
	}
	las := ensemble.LASOptions{Window: c.Data.LAS.Window, Smooth: c.Data.LAS.Smooth}
	if err := samples.ReadAuxiliary(ctx, c, task.Features.Auxiliary, d.Grid); err != nil {
		return nil, err
	}
	watch := newInputWatch(&task, d)
	sums, err := sumsOf(ctx, d, &task, setup.SpecOf(c).NewHeadSums(len(task.Score)), watch)
	if err != nil {
		return nil, err
	}
	err = task.FitSums(sums, c.Data.Standardise, las, d.Grid, d.Ranks)
	if err != nil && exit.CodeOf(team.Lost(err)) != exit.RankLost {
		err = &exit.Error{Code: exit.BadData, What: "the statistics of the training starts cannot be fitted", At: "data.split.train", Why: err.Error(),
			Fix: "look at the fields with `ensemble inspect --stats`, or change data.split.train", Err: err}
	}
	if err := d.Ranks.Together(err); err != nil {
		return nil, err
	}
	if err := d.Ranks.Together(task.FitHead(sums.Head, d.Ranks)); err != nil {
		return nil, err
	}
	known, err := watch.fit()
	if err = d.Ranks.Together(err); err != nil {
		return nil, err
	}
	local, err := model.ShareTask(d.Ranks, &task)
	if err != nil {
		return nil, err
	}
	fits, err := newCrossFit(c, d.Train.Inits)
	if err != nil {
		return nil, err
	}
	baselines, warnings, err := fitBaselines(ctx, &task, methodsOf(c.Baselines), past, d.Grid, d.Ranks, fits.add)
	if err != nil {
		return nil, err
	}
	references, err := fits.share(d.Ranks)
	if err != nil {
		return nil, err
	}
	task.Correct(fits.whole())
	local.Correct(references.whole())
	d.Warnings = append(d.Warnings, warnings...)
	climate, warnings, err := ClimateOf(ctx, c.Climate, &task, past, d.Grid, d.Ranks)
	if err != nil {
		return nil, err
	}
	d.Warnings = append(d.Warnings, warnings...)
	if err := local.WeighExtremes(c, climate, d.Ranks); err != nil {
		return nil, err
	}
	start, err := readStart(string(c.Model.Start))
	if err != nil {
		return nil, err
	}
	cfg := setup.Resolved(c.Train.Train, d.Ranks)
	turns, foldOf, err := setup.TurnsOf(setup.SpecOf(c), cfg, d.Train.Inits, setup.LastTarget(c))
	if err != nil {
		return nil, err
	}
	first, last := d.Train.Inits[0], d.Train.Inits[len(d.Train.Inits)-1]
	return &trainer{
		ranks: d.Ranks, local: local, cfg: cfg, base: cfg, prune: pruning{of: c.Prune}, turns: turns, foldOf: foldOf, references: references, fits: fits, sampling: c.Data.Members.Sampling, data: d, dir: dir, hash: c.Hash(),
		stop: d.Ranks.Stop(o.Stop), start: start, timings: o.Timings, table: o.Timings.Open(cfg.Threads), choices: map[string]string{},
		model: &model.Model{
			Spec: setup.SpecOf(c), Task: task,
			About: model.About{Version: o.Version, Control: c.Data.Members.Control, Trained: ensemble.Period{From: first.Time, To: last.Time}, Origins: d.Origins,
				Grid: d.Grid, Interpolation: setup.InterpolationOf(c)},
			Baselines: baselines, Climate: climate, Drift: known, Family: setup.SpecOf(c).Predicted(cfg.Networks),
		},
	}, nil
}

// sumsOf are the sums over the training dates. Of a store, whose starts are all read here for
// the first time, the values are judged too.
func sumsOf(ctx context.Context, d *samples.Data, k *model.Task, head *model.HeadSums, watch *inputWatch) (*model.TaskSums, error) {
	sums, err := k.NewSums(d.All)
	if err != nil {
		return nil, err
	}
	sums.Head = head
	all := d.Train
	if d.Judged != nil {
		all.Inits = samples.Inits(d.Split)
	}
	err = all.Each(ctx, d.Ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
		if d.Judged != nil {
			d.Judged.Add(fc, a)
		}
		if i >= len(d.Train.Inits) {
			return nil
		}
		if err := watch.add(i, fc); err != nil {
			return err
		}
		return sums.Add(fc, a)
	})
	if err != nil || d.Judged == nil {
		return sums, err
	}
	noticed, err := d.Judged.Faults(d.Ranks)
	d.Warnings, d.Judged = append(d.Warnings, noticed...), nil
	return sums, err
}

// enter prepares a fresh run, or goes to the checkpoint that is to be resumed. It
// returns the step resumed from.
func (t *trainer) enter(o Options, state rundir.State, warnings *[]string) (uint64, error) {
	c := o.Config
	var sources []rundir.Source
	for _, f := range c.Files() {
		sources = append(sources, rundir.Source{Path: f.Path, Text: f.Text})
	}
	if state == rundir.Resuming {
		began, err := os.ReadFile(t.dir.File("config.effective.yaml"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, exit.Read(t.dir.File("config.effective.yaml"), err)
		}
		if err == nil {
			if err := o.Config.CheckResume(began); err != nil {
				return 0, err
			}
		}
		step, err := t.resume(o, warnings)
		if err != nil || bytes.Equal(began, c.YAML()) || !t.ranks.Leads() {
			return step, err
		}
		if began != nil {
			*warnings = append(*warnings, fmt.Sprintf("the configuration changed before step %d in keys that may; a run that never stopped can end elsewhere", step+1))
		}
		return step, t.dir.WriteConfig(c.YAML(), sources)
	}
	if o.Resume != "" && o.Resume != "auto" {
		return 0, &exit.Error{Code: exit.NotYet, What: "no run was begun here", At: o.RunDir, Why: "--resume " + o.Resume + " names the checkpoint of a step",
			Fix: "correct --run-dir, or give --resume auto, which begins where nothing is"}
	}
	if !t.ranks.Leads() {
		return 0, nil
	}
	if err := t.dir.WriteConfig(c.YAML(), sources); err != nil {
		return 0, err
	}
	t.environment = &rundir.Environment{Version: o.Version, Threads: model.Threads(c.Train.Train.Threads), Seed: int64(t.cfg.Seed), Determinism: "D1", Start: time.Now().UTC()}
	return 0, t.dir.WriteEnvironment(*t.environment)
}

// resume restores the checkpoint asked for.
func (t *trainer) resume(o Options, warnings *[]string) (uint64, error) {
	c, err := t.checkpoint(o.Resume, warnings)
	if c == nil || err != nil { // nil: stopped before the first checkpoint
		return 0, err
	}
	if err := t.restore(c); err != nil {
		return 0, err
	}
	return c.Step, t.dir.Events().Resumed(c.Step, c.Epoch)
}

// checkpoint loads the one asked for, or the newest whole one: all ranks that of the
// leading rank. It is nil if there is none yet.
func (t *trainer) checkpoint(which string, warnings *[]string) (*ckpt.Checkpoint, error) {
	root := t.dir.File("checkpoints")
	load := func(step uint64) (*ckpt.Checkpoint, error) {
		return ckpt.Load(t.dir.File("checkpoints", ckpt.Name(step)))
	}
	if which != "auto" {
		step, err := strconv.ParseUint(which, 10, 64)
		if err != nil {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("cannot resume from %q", which), Fix: "give --resume auto or the number of a step"}
		}
		return load(step)
	}
	var c *ckpt.Checkpoint
	at := int64(-1)
	if t.ranks.Leads() {
		var damaged []string
		var err error
		if err = ckpt.Clean(root); err != nil {
			return nil, err
		}
		if c, damaged, err = ckpt.LoadLatest(root); err != nil {
			return nil, err
		}
		*warnings = append(*warnings, damaged...)
		if c != nil {
			at = int64(c.Step)
		}
	}
	at, err := t.ranks.Agree(at)
	if err != nil || at < 0 || c != nil {
		return c, err
	}
	return load(uint64(at))
}
