package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Prefixes of the tensor names in a checkpoint.
const (
	partWeights   = "weights."
	partOptimizer = "optimizer."
	partAverage   = "average."
	partBest      = "best."
	partCurvature = "curvature."
	partFinished  = "network%02d."
	partResiduals = "residuals."
)

// planRecord is the part of the compiled plans that a checkpoint stores: kernel variants and layouts. The
// division of work among threads changes no bits and is not stored.
type planRecord struct {
	Choices map[string]string `json:"choices"`
}

// stopRequest wraps a request to stop, or a read error, that was found between two batches.
type stopRequest struct{ reason error }

// Error implements error.
func (s stopRequest) Error() string { return s.reason.Error() }

// Unwrap returns the reason, on which all ranks may have agreed.
func (s stopRequest) Unwrap() error { return s.reason }

// saveIfStopped saves a checkpoint if err is a stopRequest and returns its reason; it returns other errors
// unchanged.
//
// Errors: that of saving, without the reason, which promises a checkpoint.
func (t *trainer) saveIfStopped(err error) error {
	stop := stopRequest{}
	if !errors.As(err, &stop) {
		return err
	}
	if err := t.save(); err != nil {
		return fmt.Errorf("saving a checkpoint to stop: %w", err)
	}
	return stop.reason
}

// checkResume checks, before any input is read, that the run exists from which the training shall go on, and that its configuration
// differs only in keys that allow it.
//
// Errors: exit 66 if a step is named and no run exists; those of changesSince.
func (r *trainingRun) checkResume(o Options) error {
	if r.state == rundir.Resuming {
		_, _, err := changesSince(r.dir, o.Config)
		return err
	}
	if o.Resume != "" && o.Resume != "auto" {
		return &exit.Error{Code: exit.NotYet, What: "no run to resume", At: o.RunDir, Why: "the directory has no checkpoint, and --resume " + o.Resume + " names one",
			Fix: "correct --run-dir, or give --resume auto, which starts a new run if none exists"}
	}
	return nil
}

// changesSince returns the configuration with which a run began, nil if it has none, and the changed keys since.
//
// Errors: exit 64 for a change in a key that must not change; 74 for the file.
func changesSince(dir *rundir.Dir, c *config.TrainConfig) (began []byte, changes []config.Change, err error) {
	effective := dir.File(trained.EffectiveConfigFile)
	began, err = filesystem.ReadFile(effective)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, exit.ReadError(effective, err)
	}
	changes, err = c.CheckResume(began)
	return began, changes, err
}

// startOrResume writes the configuration of a fresh run, or resumes from a checkpoint. It returns the step resumed
// from.
//
// Errors: those of resume.
func (t *trainer) startOrResume(o Options, state rundir.State) (uint64, error) {
	c := o.Config
	var sources []rundir.Source
	for _, f := range c.Files() {
		sources = append(sources, rundir.Source{Path: f.Path, Text: f.Text})
	}
	if state == rundir.Resuming {
		return t.resume(o, sources)
	}
	if !t.ranks.IsRoot() {
		return 0, nil
	}
	if err := t.dir.WriteConfig(c.YAML(), sources); err != nil {
		return 0, err
	}
	t.observers.environment = &rundir.Environment{Version: o.Version, Threads: network.Threads(c.Train.Train.Threads), Seed: int64(t.base.Seed), Determinism: "D1", Start: time.Now().UTC()}
	return 0, t.dir.WriteEnvironment(*t.observers.environment)
}

// resume restores the requested checkpoint. The configuration may differ in keys that allow it.
//
// Errors: those of changesSince; exit 65 and 66 for the checkpoint.
func (t *trainer) resume(o Options, sources []rundir.Source) (uint64, error) {
	began, changes, err := changesSince(t.dir, o.Config)
	if err != nil {
		return 0, err
	}
	var step uint64
	c, err := t.loadCheckpoint(o.Resume)
	if c == nil && err == nil { // the run stopped before its first checkpoint
		err = t.dir.Events().Resumed(0, 0)
	} else if err == nil {
		if err = t.restore(c); err == nil {
			err = t.ranks.AgreeOnError(t.branch(c.Step))
		} else if e := t.end(); e != nil { // the network that it has compiled
			err = errors.Join(err, e)
		}
		if err == nil {
			step, err = c.Step, t.dir.Events().Resumed(c.Step, c.Epoch)
		}
	}
	if err != nil || bytes.Equal(began, o.Config.YAML()) || !t.ranks.IsRoot() {
		return step, err
	}
	for _, x := range changes {
		t.data.Warnings = append(t.data.Warnings, t.describeChange(x, step))
	}
	return step, t.dir.WriteConfig(o.Config.YAML(), sources)
}

// describeChange is the warning about a changed key that can change results.
func (t *trainer) describeChange(x config.Change, step uint64) string {
	w := fmt.Sprintf("%s was %s and is %s from step %d on; the result can differ from that of an uninterrupted run", x.Key, x.Before, x.Now, step+1)
	epochs, err := strconv.Atoi(x.Before)
	if x.Key != "train.epochs" || err != nil || t.current == nil || t.isPretraining() { // which has epochs of its own
		return w
	}
	before, at := t.current.cfg, uint64(t.networkSteps())
	before.Epochs = epochs
	was, is := schedule(before, uint64(t.stepCount(t.epochBatches())), &t.pos.Plateau).Rate(at), t.current.rate.Rate(at)
	if was == is {
		return w
	}
	return w + fmt.Sprintf("; train.schedule: %s counts by the share of all epochs, so that the learning rate of the next step is %.3g, not %.3g", before.Schedule, is, was)
}

// branch moves checkpoints after the step from which the run continues into folders "set-aside-…".
func (t *trainer) branch(step uint64) error {
	if !t.ranks.IsRoot() {
		return nil
	}
	var later []uint64
	err := t.dir.Publish(func() (err error) {
		later, err = ckpt.Branch(t.dir.File("checkpoints"), step)
		return err
	})
	if len(later) > 0 {
		t.data.Warnings = append(t.data.Warnings, fmt.Sprintf("the run continues from step %d: later checkpoints, of the steps %v, are set aside in %s and removed when it has passed their steps",
			step, later, t.dir.File("checkpoints", "set-aside-*")))
	}
	return err
}

// loadCheckpoint loads the checkpoint of a step, or with "auto" the newest complete one; all ranks load that of
// rank 0. It is nil if none exists.
func (t *trainer) loadCheckpoint(which string) (*ckpt.Checkpoint, error) {
	root := t.dir.File("checkpoints")
	load := func(step uint64) (*ckpt.Checkpoint, error) {
		return ckpt.Load(t.dir.File("checkpoints", ckpt.Name(step)))
	}
	if which != "auto" {
		step, err := strconv.ParseUint(which, 10, 64)
		if err != nil {
			return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("invalid checkpoint %q", which), Fix: "give --resume auto or the number of a step"}
		}
		return load(step)
	}
	var c *ckpt.Checkpoint
	at := int64(-1)
	if t.ranks.IsRoot() {
		var damaged []string
		var err error
		if err = t.dir.Publish(func() error { return ckpt.RemovePartial(root) }); err != nil {
			return nil, err
		}
		if c, damaged, err = ckpt.LoadLatest(root); err != nil {
			return nil, err
		}
		t.data.Warnings = append(t.data.Warnings, damaged...)
		if c != nil {
			at = int64(c.Step)
		}
	}
	at, err := t.ranks.BroadcastInt(at)
	if err != nil || at < 0 || c != nil {
		return c, err
	}
	return load(uint64(at))
}

// save writes a checkpoint, which does not depend on the number of ranks. All ranks call it, rank 0 writes, and all return its
// error: a rank that went on, or ended with 75, would promise a checkpoint that there is not.
func (t *trainer) save() error { return t.ranks.AgreeOnError(t.saveOwn()) }

// saveOwn is the part of this rank in save.
func (t *trainer) saveOwn() error {
	moments, err := t.current.opt.State()
	if err != nil {
		return err
	}
	tensors, err := t.savePruning()
	if err != nil {
		return err
	}
	residuals, err := t.saveResiduals()
	if err != nil {
		return err
	}
	factors, err := t.current.curvature.tensors()
	if err != nil {
		return err
	}
	tensors = slices.Concat(tensors, residuals, factors)
	tensors = append(tensors, t.current.saveExchange()...)
	if err := t.current.updateEvalStore(); err != nil || !t.ranks.IsRoot() {
		return err
	}
	add := func(prefix string, w model.Weights) {
		for _, x := range w {
			x.Name = prefix + x.Name
			tensors = append(tensors, x)
		}
	}
	add(partWeights, model.CopyWeights(t.current.store))
	for _, s := range moments {
		tensors = append(tensors, ckpt.Tensor{Name: partOptimizer + s.Name, Shape: s.Shape, Data: s.Values})
	}
	if t.current.evalStore != t.current.store {
		add(partAverage, model.CopyWeights(t.current.evalStore))
	}
	add(partBest, t.current.best)
	for i, w := range t.finished {
		add(fmt.Sprintf(partFinished, i), w)
	}
	if err := t.current.deviceError(); err != nil { // the checkpoints before remain
		return err
	}
	return t.writeCheckpoint(tensors)
}

// writeCheckpoint writes tensors and position, and deletes old checkpoints beyond checkpoint.keep.
func (t *trainer) writeCheckpoint(tensors []ckpt.Tensor) error {
	state, err := json.Marshal(t.pos)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	plan, err := json.Marshal(planRecord{t.kernels.choices})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := t.dir.Events().Sync(); err != nil { // those of the steps before it must not be lost while the checkpoint is kept
		return err
	}
	root := t.dir.File("checkpoints")
	meta := ckpt.Meta{Step: t.pos.Step, Epoch: t.pos.Epoch, Version: t.model.Version, ConfigHash: t.resumeIdentity, State: state, Plan: plan}
	if _, err := ckpt.Save(root, meta, tensors, t.dir.Publish); err != nil {
		return err
	}
	return t.dir.Publish(func() error {
		if t.current.best != nil && t.pos.BestEpoch == t.pos.Epoch && t.pos.Batch == 0 {
			if err := ckpt.MarkBest(root, t.pos.Step); err != nil {
				return err
			}
		}
		return ckpt.Retain(root, t.current.cfg.Checkpoint.Keep)
	})
}

// restore restores network, optimiser and position from a checkpoint.
//
// Errors: exit 65 if its tensors do not match the network.
func (t *trainer) restore(c *ckpt.Checkpoint) error {
	unreadable := func(what string, err error) error {
		return &exit.Error{Code: exit.BadData, What: "the checkpoint's " + what + " cannot be read", At: c.Dir, Why: err.Error(), Fix: "remove this checkpoint and resume from the preceding one"}
	}
	if c.ConfigHash != t.resumeIdentity {
		return &exit.Error{Code: exit.BadData, What: "the checkpoint is of another training", At: c.Dir, Why: "it was saved with another configuration",
			Fix: "remove it and resume from a checkpoint of this run, or give its weights to a new run by model.pretrained"}
	}
	if err := json.Unmarshal(c.State, &t.pos); err != nil {
		return unreadable("state", err)
	}
	var plan planRecord
	if err := json.Unmarshal(c.Plan, &plan); err != nil {
		return unreadable("plan", err)
	}
	maps.Copy(t.kernels.choices, plan.Choices)
	part := func(prefix string) (w model.Weights) {
		for _, x := range c.Tensors {
			if name, ok := strings.CutPrefix(x.Name, prefix); ok && name != "" {
				x.Name = name
				w = append(w, x)
			}
		}
		return w
	}
	if t.pos.Network >= len(t.trainings) {
		return unreadable("state", fmt.Errorf("network %d of %d", t.pos.Network+1, len(t.trainings)))
	}
	for i := range t.pos.Network {
		t.finished = append(t.finished, part(fmt.Sprintf(partFinished, i)))
	}
	if err := t.begin(); err != nil {
		return err
	}
	if err := t.restoreWeights(part(partWeights), part(partAverage), part(partOptimizer), c.Dir); err != nil {
		return err
	}
	if err := t.restoreCurvature(part(partCurvature)); err != nil {
		return unreadable("curvature", err)
	}
	t.current.best = part(partBest)
	if err := t.restorePruning(part(partPruning), part(partRewind)); err != nil {
		return unreadable("mask", err)
	}
	if err := t.current.restoreExchange(part(partExchange), c.Dir); err != nil {
		return err
	}
	return t.restoreResiduals(part(partResiduals), c.Dir)
}
