package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/prune/channels"
	sharing "github.com/ensemble-weather/ensemble/engine/share"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/jsonfile"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/loader"
	"github.com/ensemble-weather/ensemble/io/store"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/spatial/comm"
	"github.com/ensemble-weather/ensemble/spatial/comm/mpi"
)

// TrainOptions says what to train and where.
type TrainOptions struct {
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
	Timings  Timings            // of kernels
	Progress *progress.Reporter // nil shows nothing
	Warn     func(string)       // nil drops warnings; they are in the manifest too
	Timed    Timed              // to a quality; a run that goes on or is finished cannot be

	kept []channels.Kept // that are left of the network with whose weights it begins
}

// TrainResult says what came of a training.
type TrainResult struct {
	RunDir   string
	Complete bool // the run was finished before; nothing was done
	Steps    uint64
	Input    TrainInput
	Scores   *score.Result    // on the test starts; nil if there are none
	Sparsity []model.Sparsity // of the networks; none if nothing was pruned
	Sharing  *sharing.Plan    // of the parameters of each network; nil if none are shared
	Outputs  []string         // paths of the files that the manifest vouches for
	Warnings []string
}

// TrainInput says how long the steps of this process waited for their batches, and where the
// starts came from.
type TrainInput struct {
	Steps  float64 `json:"steps_s"`
	Waited float64 `json:"waited_s"`
	Share  float64 `json:"waited_share"` // of the time of the steps
	// Memory, DiskCache, Peers (the memory of other ranks) and FileSystem count the starts that
	// came from there and their bytes; all came from memory if there is no store. FileSystem has
	// those that were read for other ranks too.
	Memory     loader.Count `json:"memory"`
	DiskCache  loader.Count `json:"disk_cache"`
	Peers      loader.Count `json:"peers"`
	FileSystem loader.Count `json:"file_system"`
}

// data is what a training reads.
type data struct {
	axes                    ensemble.Axes
	used, all               []ensemble.Member
	grid                    *ensemble.Grid // of the whole fields
	ranks                   *team.Team     // of which each has its slab of all starts
	source                  *source
	train, validation, test examples // of the source
	split                   ensemble.Split
	inputs                  []manifest.File
	origins                 []ensemble.Origin // of the forecasts; none where that is not known
	warnings                []string

	store  *store.Store  // nil where samples come from other files
	judged *storedCensus // of its values, when all have been read; nil once that is so
}

// close frees the samples.
func (d *data) close() error {
	var err error
	if d.source != nil {
		err = d.source.Close()
	}
	if d.store != nil {
		err = errors.Join(err, d.store.Close())
	}
	return err
}

// Train trains the networks of a configuration, judges them on the test starts,
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
func Train(ctx context.Context, o TrainOptions) (r *TrainResult, err error) {
	if n := mpi.Apart(os.Getenv); n > 0 {
		return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("srun started %d tasks without an interface of MPI", n),
			Why: "each would be a training of its own, all in one run directory", Fix: "srun --mpi=pmix for Open MPI, srun --mpi=pmi2 for MPICH"}
	}
	parts, err := partsOf(o.Config.Train.Train.Mesh)
	if _, launched := mpi.Launched(os.Getenv); !launched {
		if err != nil {
			return nil, err
		}
		if parts <= 1 {
			return trainAs(ctx, o, nil)
		}
	} // ranks find together that they have no mesh
	_, err = team.OnRanks(0, parts, o.Config.Train.Train.StallTimeout, func(c *comm.Comm) error {
		ranks := team.New(c)
		own, err := trainAs(ctx, o.ofPart(ranks), ranks)
		if ranks.Speaks() {
			r = own
		}
		return err
	})
	return r, err
}

// trainAs trains as one rank of a team, and ends the log of its time.
func trainAs(ctx context.Context, o TrainOptions, ranks *team.Team) (*TrainResult, error) {
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
func trainTimed(ctx context.Context, o TrainOptions, ranks *team.Team, timed *clock) (*TrainResult, error) {
	c := o.Config
	started := time.Now().UTC()
	if o.Stop == nil {
		o.Stop = func() error { return nil }
	}
	forecastFiles, analysisFiles, err := trainingFiles(c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ranks.SameProgram(o.Version), ranks.Same("the configuration", c.Identity())); err != nil {
		return nil, err
	}
	auxiliaryFiles, err := filesOf("data.auxiliary.files", c.Data.Auxiliary.Files)
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
		return &TrainResult{RunDir: o.RunDir, Complete: true}, timed.timeable(state, o.RunDir)
	}
	defer dir.Close()
	if err := ranks.Together(timed.timeable(state, o.RunDir)); err != nil {
		return nil, err
	}
	d, err := readData(ctx, c, forecastFiles, analysisFiles, ranks)
	if d != nil {
		defer d.close()
	}
	if err := ranks.Together(err); err != nil {
		return nil, err
	}
	if err := d.ranks.Together(checkCalibration(d, c)); err != nil {
		return nil, err
	}
	if err := d.meet(c); err != nil {
		return nil, err
	}
	d.inputs = inputs
	d.warnings = append(c.Warnings(), d.warnings...)

	t, err := newTrainer(ctx, o, d, dir)
	if err != nil {
		return nil, err
	}
	t.timed, t.clock = o.Timed, timed
	if err := ranks.Together(timed.describe(t.base, c, identity, len(d.train.inits), len(d.validation.inits))); err != nil {
		return nil, err
	}
	if t.model.Spec.Kept = o.kept; o.kept == nil {
		if t.model.Spec.Kept, err = startChannels(c, &t.model.Task, d.grid); err != nil {
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
	if err := t.removal.check(t.model.Spec, &t.model.Task, d.grid); err != nil {
		return nil, err
	}
	from, err := t.enter(o, state, &d.warnings)
	if err != nil {
		return nil, err
	}
	if o.Warn != nil && ranks.Leads() {
		for _, w := range d.warnings {
			o.Warn(w)
		}
	}
	task := o.Progress.Start("train", int64(t.allSteps(t.turns)))
	t.report = func(done int, note string) { task.Set(int64(done), note) }
	err = t.run(context.WithoutCancel(ctx))
	task.Done()
	if o.Timed.Only && (err == nil || errors.Is(err, errAtQuality)) {
		return &TrainResult{RunDir: o.RunDir, Steps: t.at.Step, Input: t.input.result(), Warnings: d.warnings}, nil
	}
	if err != nil {
		return nil, err
	}
	res := &TrainResult{RunDir: o.RunDir, Steps: t.at.Step, Input: t.input.result(), Sparsity: t.model.Sparsity, Sharing: t.model.Sharing, Warnings: d.warnings}
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
	late, err := t.input.warnings(ranks)
	if err != nil {
		return nil, err
	}
	d.warnings = append(d.warnings, late...)
	res.Warnings = d.warnings
	if o.Warn != nil && ranks.Leads() {
		for _, w := range late {
			o.Warn(w)
		}
	}
	var show *Example
	if len(d.test.inits) > 0 {
		eo := model.Options(t.cfg.Threads, t.cfg.Device)
		eo.Timings = t.table
		t.model.Ranks, t.model.Local = ranks, t.local
		if res.Scores, show, err = judge(ctx, t.model, d.test, eo, o.Progress); err != nil {
			return nil, err
		}
	}
	if !ranks.Leads() {
		return res, nil
	}
	if show != nil {
		o.Timings.save(t.table)
		if err := model.SaveCoupling(dir.File("model"), t.model.Coupling); err != nil {
			return nil, err
		}
		if err := writeScores(o.RunDir, res.Scores); err != nil {
			return nil, err
		}
		if err := show.Save(o.RunDir); err != nil {
			return nil, err
		}
	}
	if err := dir.Events().Write("done", t.at.Step, 0, rundir.Value{Name: "resumed_from", Value: from}); err != nil {
		return nil, err
	}
	made, err := outputs(dir, res.Scores != nil)
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		res.Outputs = append(res.Outputs, dir.File(name))
	}
	modelSum, err := modelChecksum(dir.File("model"))
	if err != nil {
		return nil, err
	}
	return res, rundir.WriteManifest(o.RunDir, rundir.Manifest{
		Record: manifest.Record{Status: manifest.OK, Version: o.Version, ConfigChecksum: "sha256:" + c.Hash(), ModelChecksum: modelSum,
			Start: started, End: time.Now().UTC(), Inputs: inputs, Warnings: d.warnings},
		Command: "train", Identity: identity,
		Details: map[string]any{"steps": t.at.Step, "determinism": "D1", "members_used": d.used, "members_full": len(d.all),
			"starts_train": len(d.train.inits), "starts_validation": len(d.validation.inits), "starts_test": len(d.test.inits)},
	}, made)
}

// readData reads and divides everything a training needs. Of several ranks each reads
// its slab of all starts: which of them it will be given next, chance decides.
func readData(ctx context.Context, c *config.TrainConfig, forecastFiles, analysisFiles []string, ranks *team.Team) (*data, error) {
	if c.Data.Store != "" {
		return openStore(ctx, c, ranks)
	}
	d := &data{axes: readAxes(c), ranks: ranks}
	in, err := fio.Open(ctx, forecastFiles, reading(c, true))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	m := c.Data.Members
	if d.used, d.all, err = choose(in.Catalogue().Members(), m.Use.List, m.Use.Count, m.Full, m.Control); err != nil {
		return nil, err
	}
	to, err := destinationOf(ctx, c)
	if err != nil {
		return nil, err
	}
	wanted, err := selectForecasts(in, d.axes, d.all, to)
	if err != nil {
		return nil, err
	}
	d.grid, d.origins = wanted.grid, ensemble.Origins(wanted.entries)
	if err := joinMesh(ranks, c, d.grid); err != nil {
		return nil, err
	}
	if err := wanted.check(ctx, wanted.inits); err != nil {
		return nil, err
	}
	forecasts, noticed, err := wanted.read(ctx, wanted.inits, ranks)
	if err != nil {
		return nil, err
	}
	d.warnings = slices.Concat(d.warnings, wanted.warnings, noticed)
	if d.split, err = divide(c.Data.Split, wanted.inits); err != nil {
		return nil, err
	}
	var warnings []string
	if warnings, err = d.split.CheckLeaks(d.axes.Leads, c.Data.TargetLeads); err != nil {
		return nil, err
	}
	d.warnings = append(d.warnings, warnings...)
	var held []*store.Sample
	for _, init := range inits(d.split) {
		held = append(held, &store.Sample{Forecast: forecasts[slices.Index(wanted.inits, init)]})
	}
	if len(analysisFiles) > 0 {
		if err := d.readAnalyses(ctx, c, analysisFiles, held); err != nil {
			return nil, err
		}
	}
	d.divided(loader.Held(held, bytesOf(held)), len(analysisFiles) > 0)
	return d, nil
}

// readAnalyses reads the analyses of all samples' target valid times.
func (d *data) readAnalyses(ctx context.Context, c *config.TrainConfig, files []string, to []*store.Sample) error {
	in, err := fio.Open(ctx, files, reading(c, false))
	if err != nil {
		return err
	}
	defer in.Close()
	var inits []ensemble.Init
	for _, s := range to {
		inits = append(inits, s.Forecast.Init)
	}
	valids := validsOf(inits, c.Data.TargetLeads)
	wanted, err := selectAnalyses(in, targetVariables(c), c.Data.Levels, destination{d.grid, interpolationOf(c), fixGrid}, valids)
	if err != nil {
		return err
	}
	all, noticed, err := wanted.read(ctx, valids, d.ranks)
	if err != nil {
		return err
	}
	d.warnings = slices.Concat(d.warnings, wanted.warnings, noticed)
	for _, s := range to {
		for _, lead := range c.Data.TargetLeads {
			s.Analyses = append(s.Analyses, all[slices.Index(valids, s.Forecast.Init.Valid(lead))])
		}
	}
	return nil
}

// axesOf are the axes of the features of a configuration.
func axesOf(c *config.TrainConfig) ensemble.Axes {
	return ensemble.Axes{Variables: c.Data.Variables, Levels: c.Data.Levels, Leads: c.Data.Leads}
}

// taskOf is the task of a configuration without what the data decide.
func taskOf(c *config.TrainConfig) model.Task {
	return model.Task{
		Features: ensemble.Features{Axes: axesOf(c), Aggregates: aggregates(c.Data.Features), Location: c.Model.Location, Season: c.Model.Season, DDOF: c.Data.SpreadDDOF, Auxiliary: auxiliaryOf(c),
			OfMembers: model.MemberFields(c)},
		Targets: model.TargetsOf(targetVariables(c), c.Data.TargetLeads),
	}
}

// specOf is the network of a configuration.
func specOf(c *config.TrainConfig) model.Spec {
	s := model.Spec{Kind: c.Model.Kind, Embedding: c.Model.Embedding, Auxiliary: len(c.Data.Auxiliary.Variables), Base: c.Model.Base, Stages: c.Model.Stages, Dropout: c.Model.Dropout, Periodic: c.Model.Periodic,
		Head: c.Model.Head, Loss: c.Train.Train.Loss.Kind, SpreadWeight: c.Train.Train.Loss.Spread, Precision: c.Train.Train.Precision}
	s = s.OfMembers(c)
	s = s.OfLeads(c)
	s.HeadOf(c)
	s.ShareOf(c)
	if c.Model.Height != config.SharedHeight {
		s.Height = c.Model.Height
	}
	if c.Model.Reference != config.NoReference {
		s.Reference = c.Model.Reference
	}
	if m := c.Model; m.Method == config.StagesMethod {
		s.Method, s.SpreadWeight, s.Loss = m.Method, 0, c.Train.Train.Stages.Spread.Loss
		s.Bias = model.BiasSpec{Base: m.Bias.Base, Stages: m.Bias.Stages, Local: m.Bias.Local, Smooth: m.Bias.Smooth, Folds: m.Bias.Folds}
	}
	return s
}

// targetVariables lists the variables of the targets once each, in order.
func targetVariables(c *config.TrainConfig) []string {
	var out []string
	for _, t := range c.Data.Targets {
		if !slices.Contains(out, t.Variable) {
			out = append(out, t.Variable)
		}
	}
	return out
}

// divide applies a split by dates or by fractions of the sorted starts.
func divide(s config.Split, inits []ensemble.Init) (ensemble.Split, error) {
	if s.ByDate() {
		test := s.Test.Domain()
		if s.Test.From.IsZero() {
			test = ensemble.Period{From: time.Unix(1, 0), To: time.Unix(0, 0)} // holds no date
		}
		return ensemble.NewSplit(inits, s.Train.Domain(), s.Validation.Domain(), test)
	}
	n := float64(len(inits))
	a := int(math.Round(n * s.Fractions.Train))
	b := min(len(inits), a+int(math.Round(n*s.Fractions.Validation)))
	return ensemble.Split{Train: inits[:a], Validation: inits[a:b], Test: inits[b:]}, nil
}

func aggregates(names []string) []ensemble.Aggregate {
	out := make([]ensemble.Aggregate, len(names))
	for i, n := range names {
		out[i] = ensemble.Aggregate(n)
	}
	return out
}

// newTrainer fits the task and the baselines on the training part.
func newTrainer(ctx context.Context, o TrainOptions, d *data, dir *rundir.Dir) (*trainer, error) {
	c := o.Config
	if err := checkPlaces(c, d.grid); err != nil {
		return nil, err
	}
	task := taskOf(c)
	task.Used, task.Least, task.Full = d.used, c.Data.Members.Least, len(d.all)
	task.Score = make([]float64, len(task.Targets)*len(d.axes.Levels))
	for v, of := range task.Targets {
		for _, t := range c.Data.Targets {
			for _, l := range t.Levels {
				if t.Variable == of.Variable {
					task.Score[v*len(d.axes.Levels)+slices.Index(d.axes.Levels, l)] = 1
				}
			}
		}
		if w := c.Train.Train.Loss.Leads; w != nil {
			task.LeadWeights = append(task.LeadWeights, w[slices.Index(c.Data.TargetLeads, of.Lead)])
		}
	}
	// Baselines may use what the network is chosen by as well: both see all dates
	// before the test.
	past := d.past()
	for statistic, inits := range map[string][]ensemble.Init{"normaliser": d.train.inits, "baseline": past.inits} {
		if err := d.split.CheckFitted(statistic, validsOf(inits, c.Data.TargetLeads), c.Data.TargetLeads); err != nil {
			return nil, err
		}
	}
	las := ensemble.LASOptions{Window: c.Data.LAS.Window, Smooth: c.Data.LAS.Smooth}
	if err := readAuxiliary(ctx, c, task.Features.Auxiliary, d.grid); err != nil {
		return nil, err
	}
	watch := newInputWatch(&task, d)
	sums, err := sumsOf(ctx, d, &task, specOf(c).NewHeadSums(len(task.Score)), watch)
	if err != nil {
		return nil, err
	}
	err = task.FitSums(sums, c.Data.Standardise, las, d.grid, d.ranks)
	if err != nil && exit.CodeOf(team.Lost(err)) != exit.RankLost {
		err = &exit.Error{Code: exit.BadData, What: "the statistics of the training starts cannot be fitted", At: "data.split.train", Why: err.Error(),
			Fix: "look at the fields with `ensemble inspect --stats`, or change data.split.train", Err: err}
	}
	if err := d.ranks.Together(err); err != nil {
		return nil, err
	}
	if err := d.ranks.Together(task.FitHead(sums.Head, d.ranks)); err != nil {
		return nil, err
	}
	known, err := watch.fit()
	if err = d.ranks.Together(err); err != nil {
		return nil, err
	}
	local, err := model.ShareTask(d.ranks, &task)
	if err != nil {
		return nil, err
	}
	fits, err := newCrossFit(c, d.train.inits)
	if err != nil {
		return nil, err
	}
	baselines, warnings, err := fitBaselines(ctx, &task, methodsOf(c.Baselines), past, d.grid, d.ranks, fits.add)
	if err != nil {
		return nil, err
	}
	references, err := fits.share(d.ranks)
	if err != nil {
		return nil, err
	}
	task.Correct(fits.whole())
	local.Correct(references.whole())
	d.warnings = append(d.warnings, warnings...)
	climate, warnings, err := climateOf(ctx, c.Climate, &task, past, d.grid, d.ranks)
	if err != nil {
		return nil, err
	}
	d.warnings = append(d.warnings, warnings...)
	if err := local.WeighExtremes(c, climate, d.ranks); err != nil {
		return nil, err
	}
	start, err := readStart(string(c.Model.Start))
	if err != nil {
		return nil, err
	}
	cfg := resolved(c.Train.Train, d.ranks)
	turns, foldOf, err := turnsOf(specOf(c), cfg, d.train.inits, lastTarget(c))
	if err != nil {
		return nil, err
	}
	first, last := d.train.inits[0], d.train.inits[len(d.train.inits)-1]
	return &trainer{
		ranks: d.ranks, local: local, cfg: cfg, base: cfg, prune: pruning{of: c.Prune}, turns: turns, foldOf: foldOf, references: references, fits: fits, sampling: c.Data.Members.Sampling, data: d, dir: dir, hash: c.Hash(),
		stop: d.ranks.Stop(o.Stop), start: start, timings: o.Timings, table: o.Timings.open(cfg.Threads), choices: map[string]string{},
		model: &model.Model{
			Spec: specOf(c), Task: task, Grid: d.grid, Control: c.Data.Members.Control, Version: o.Version, Interpolation: interpolationOf(c),
			Trained:   ensemble.Period{From: first.Time, To: last.Time},
			Origins:   d.origins,
			Baselines: baselines, Climate: climate, Drift: known, Family: specOf(c).Predicted(cfg.Networks),
		},
	}, nil
}

// sumsOf are the sums over the training dates. Of a store, whose starts are all read here for
// the first time, the values are judged too.
func sumsOf(ctx context.Context, d *data, k *model.Task, head *model.HeadSums, watch *inputWatch) (*model.TaskSums, error) {
	sums, err := k.NewSums(d.all)
	if err != nil {
		return nil, err
	}
	sums.Head = head
	all := d.train
	if d.judged != nil {
		all.inits = inits(d.split)
	}
	err = all.each(ctx, d.ranks, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
		if d.judged != nil {
			d.judged.add(fc, a)
		}
		if i >= len(d.train.inits) {
			return nil
		}
		if err := watch.add(i, fc); err != nil {
			return err
		}
		return sums.Add(fc, a)
	})
	if err != nil || d.judged == nil {
		return sums, err
	}
	noticed, err := d.judged.faults(d.ranks)
	d.warnings, d.judged = append(d.warnings, noticed...), nil
	return sums, err
}

// resolved fills in what depends on the machine, and gives each part of a process its share
// of threads and memory: all parts one as large, so that they choose the same kernels.
func resolved(c config.Training, ranks *team.Team) config.Training {
	parts := ranks.Most()
	c.Threads = max(1, model.Threads(c.Threads)/parts)
	c.Memory /= config.Bytes(parts)
	c.Workspace /= config.Bytes(parts)
	return c
}

// enter prepares a fresh run, or goes to the checkpoint that is to be resumed. It
// returns the step resumed from.
func (t *trainer) enter(o TrainOptions, state rundir.State, warnings *[]string) (uint64, error) {
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
func (t *trainer) resume(o TrainOptions, warnings *[]string) (uint64, error) {
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

// judge scores a model and its baselines on starts it was not trained on, and gives
// the last of them as an example. Of several ranks all predict; the leading one gets the
// whole fields of one start after the other and scores them, the others get nil.
func judge(ctx context.Context, m *model.Model, test examples, o engine.Options, show *progress.Reporter) (*score.Result, *Example, error) {
	defer m.Close()
	k := &m.Task
	scorings := make([]*scoring, len(k.Score)) // nil for what was not asked for
	var last *Example
	err := eachPrediction(ctx, m, "verify", test, o, show, func(i int, fc *ensemble.Forecast, _ *model.Forecast, cases []*Case) error {
		for at, c := range cases {
			if c == nil {
				continue
			}
			if scorings[at] == nil {
				j := judgementOf(m, at)
				j.inits, j.of = test.inits, score.OfTraining
				var err error
				if scorings[at], err = j.begin(shapeOf(*c)); err != nil {
					return err
				}
			}
			sums, err := scorings[at].sum(*c)
			if err != nil {
				return err
			}
			if err := scorings[at].join(sums); err != nil {
				return err
			}
		}
		if i == len(test.inits)-1 {
			last = exampleOf(m, fc, cases)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	all := &score.Result{}
	for _, s := range scorings {
		if s == nil {
			continue
		}
		r, err := s.result()
		if err != nil {
			return nil, nil, err
		}
		all.Append(r)
	}
	tested, err := testCoupling(uninterrupted(ctx, m), m, test, o, score.Bootstrap{})
	if err != nil {
		return nil, nil, err
	}
	m.Coupling = tested
	if !m.Ranks.Leads() {
		return nil, nil, nil
	}
	all.Coupling = slices.Concat(m.Coupling, all.Coupling)
	return all, last, nil
}

// uninterrupted is the context of what ranks that predict together compute: when one ended, the others would wait.
func uninterrupted(ctx context.Context, m *model.Model) context.Context {
	if m.Ranks == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// eachPrediction predicts starts. Of ranks that predict together all call it, and the leading one visits each forecast,
// what was predicted, and its cases, as targets are stored, nil for those that were not asked for.
func eachPrediction(ctx context.Context, m *model.Model, name string, of examples, o engine.Options, show *progress.Reporter,
	visit func(i int, fc *ensemble.Forecast, out *model.Forecast, cases []*Case) error) error {
	task := show.Start(name, int64(len(of.inits)))
	defer task.Done()
	next := of.stream(ctx, nil)
	defer next.Close()
	for i := range of.inits {
		fc, analyses, err := next.next()
		if err := m.Ranks.Together(err); err != nil {
			return err
		}
		out, err := m.Predict(uninterrupted(ctx, m), o, fc, m.Task.Used)
		if err != nil {
			return err
		}
		cases, err := casesOf(m, fc, analyses, out)
		if err != nil {
			return err
		}
		if m.Ranks.Leads() {
			if err := visit(i, fc, out, cases); err != nil {
				return err
			}
		}
		task.Set(int64(i+1), "")
	}
	return nil
}

// casesOf are what is to be judged of a prediction, by target; nil for targets that were
// not asked for, and on ranks that do not lead.
func casesOf(m *model.Model, fc *ensemble.Forecast, analyses []*ensemble.Analysis, out *model.Forecast) ([]*Case, error) {
	k, p, d := &m.Task, m.Grid.Size(), len(m.Task.Features.Axes.Levels)
	used, err := model.Positions(fc, k.Used)
	if err != nil {
		return nil, err
	}
	cases := make([]*Case, len(k.Score))
	for v := range k.Targets {
		if !slices.Contains(k.Score[v*d:(v+1)*d], 1) {
			continue
		}
		// One field of each member, then those of an earlier lead if there is such, and the analysis behind them.
		var part []float32
		t, x := k.AnswerAt(fc, v)
		for mem := range fc.Members {
			for l := range fc.Axes.Levels {
				part = append(part, fc.Field(t, mem, x, l)...)
			}
		}
		fields := len(fc.Members)
		if early, _ := k.TargetAt(v); early != t {
			for _, mem := range used {
				for l := range fc.Axes.Levels {
					part = append(part, fc.Field(early, mem, x, l)...)
				}
			}
			fields += len(used)
		}
		first := fields // of the analysis
		if analyses != nil {
			for _, level := range fc.Axes.Levels {
				obs, err := k.Observed(analyses, fc.Init, v, level)
				if err != nil {
					return nil, err
				}
				part = append(part, obs...)
			}
			fields++
		}
		whole, err := team.Join(m.Ranks, part, fields)
		if err != nil {
			return nil, err
		}
		if !m.Ranks.Leads() {
			continue
		}
		for l := range d {
			at := v*d + l
			if k.Score[at] == 0 {
				continue
			}
			of := func(i int) []float32 { return whole[(i*d+l)*p:][:p] }
			c := &Case{Init: fc.Init, Used: used}
			if out.Spread != nil {
				c.Spread = out.Spread[at*p : (at+1)*p]
			}
			if out.Members != nil {
				c.Calibrated = out.MembersOf(at, len(k.Score), p)
			}
			for mem := range fc.Members {
				c.Members = append(c.Members, of(mem))
			}
			if out.Mean != nil {
				c.Mean, c.Sigma = out.Mean[at*p:(at+1)*p], out.Sigma[at*p:(at+1)*p]
				if out.Parameters != nil {
					c.Parameters = out.ParametersAt(at, p, model.WholeField)
				}
			}
			for i := len(fc.Members); i < first; i++ {
				c.Early = append(c.Early, of(i))
			}
			if analyses != nil {
				c.Obs = of(first)
			}
			for other := at - len(k.TargetVariables())*d; other >= 0; other -= len(k.TargetVariables()) * d {
				c.Earlier = append([]*Case{cases[other]}, c.Earlier...)
			}
			cases[at] = c
		}
	}
	return cases, nil
}

// judgementOf is the scoring of one target of a model.
func judgementOf(m *model.Model, at int) judgement {
	k, d := &m.Task, len(m.Task.Features.Axes.Levels)
	t := k.Targets[at/d]
	v, _ := ensemble.VariableNamed(t.Variable)
	j := judgement{target: score.Target{Variable: t.Variable, Level: k.Features.Axes.Levels[at%d].Of(t.Variable), Lead: t.Lead, Unit: v.Unit},
		grid: m.Grid, ddof: k.Features.DDOF}
	if m.NotNormal() {
		j.family = m.DistributionOf(t.Variable)
	}
	if len(m.Baselines) > at {
		j.baselines = &m.Baselines[at]
	}
	j.climate = m.Climate.Find(j.target)
	return j
}

// ScoresFile, scoresTable and DatesTable are the results of verification in a directory, the last by start.
const (
	ScoresFile  = "scores.json"
	scoresTable = "scores.parquet"
	DatesTable  = "dates.parquet"
)

// writeScores leaves the results as JSON and as a Parquet table.
func writeScores(dir string, r *score.Result) error {
	if err := jsonfile.Write(filepath.Join(dir, ScoresFile), r); err != nil {
		return err
	}
	if err := table.Write(filepath.Join(dir, DatesTable), r.Dates); err != nil {
		return err
	}
	return table.Write(filepath.Join(dir, scoresTable), r.Scores)
}

// ReadScores reads the results that a training or a verification left in a
// directory.
//
// Errors: exit 66 if there are none, 65 if they cannot be read.
func ReadScores(dir string) (*score.Result, error) {
	path := filepath.Join(dir, ScoresFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &exit.Error{Code: exit.NotYet, What: "no scores", At: path, Why: err.Error(), Fix: "finish the training, or run `ensemble verify --out DIR`", Err: err}
	}
	var r score.Result
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "the scores cannot be read", At: path, Why: err.Error(), Fix: "make them again with `ensemble verify`", Err: err}
	}
	return &r, nil
}

// outputs lists the files of a finished run that its manifest vouches for.
func outputs(dir *rundir.Dir, scored bool) ([]string, error) {
	entries, err := os.ReadDir(dir.File("model"))
	if err != nil {
		return nil, exit.Create(dir.File("model"), err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, "model/"+e.Name())
	}
	if scored {
		out = append(out, ScoresFile, scoresTable, DatesTable)
	}
	return out, nil
}
