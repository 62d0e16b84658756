package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Names of the parts of a checkpoint.
const (
	partWeights   = "weights."
	partOptimizer = "optimizer."
	partAverage   = "average."
	partBest      = "best."
	partFinished  = "network%02d."
)

// planRecord is what a checkpoint keeps of the compiled plans: the forms of kernels
// and the layouts. Cuts of kernels change no bit and are not kept.
type planRecord struct {
	Choices map[string]string `json:"choices"`
}

// stopRequest is a wish to stop that was found between two batches, or a sample that cannot be
// read.
type stopRequest struct{ reason error }

func (s stopRequest) Error() string { return s.reason.Error() }

// saveIfStopped saves where an error is a wish to stop, and gives the reason; other errors it gives as they are.
func (t *trainer) saveIfStopped(err error) error {
	if stop := (stopRequest{}); errors.As(err, &stop) {
		return errors.Join(t.save(), stop.reason)
	}
	return err
}

// startOrResume prepares a fresh run, or goes to the checkpoint that is to be resumed. It
// returns the step resumed from.
func (t *trainer) startOrResume(o Options, state rundir.State) (uint64, error) {
	c := o.Config
	var sources []rundir.Source
	for _, f := range c.Files() {
		sources = append(sources, rundir.Source{Path: f.Path, Text: f.Text})
	}
	if state == rundir.Resuming {
		return t.resume(o, sources)
	}
	if o.Resume != "" && o.Resume != "auto" {
		return 0, &exit.Error{Code: exit.NotYet, What: "no run was begun here", At: o.RunDir, Why: "--resume " + o.Resume + " names the checkpoint of a step",
			Fix: "correct --run-dir, or give --resume auto, which begins where nothing is"}
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

// resume restores the checkpoint asked for, with a configuration that differs in keys that may.
func (t *trainer) resume(o Options, sources []rundir.Source) (uint64, error) {
	effective := t.dir.File("config.effective.yaml")
	began, err := os.ReadFile(effective)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, exit.ReadError(effective, err)
	}
	if err == nil {
		if err := o.Config.CheckResume(began); err != nil {
			return 0, err
		}
	}
	var step uint64
	c, err := t.loadCheckpoint(o.Resume)
	if c != nil && err == nil { // nil: stopped before the first checkpoint
		if err = t.restore(c); err == nil {
			step, err = c.Step, t.dir.Events().Resumed(c.Step, c.Epoch)
		}
	}
	if err != nil || bytes.Equal(began, o.Config.YAML()) || !t.ranks.IsRoot() {
		return step, err
	}
	if began != nil {
		t.data.Warnings = append(t.data.Warnings, fmt.Sprintf("the configuration changed before step %d in keys that may; a run that never stopped can end elsewhere", step+1))
	}
	return step, t.dir.WriteConfig(o.Config.YAML(), sources)
}

// loadCheckpoint loads the one asked for, or the newest whole one: all ranks that of the
// leading rank. It is nil if there is none yet.
func (t *trainer) loadCheckpoint(which string) (*ckpt.Checkpoint, error) {
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
	if t.ranks.IsRoot() {
		var damaged []string
		var err error
		if err = ckpt.RemovePartial(root); err != nil {
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

// save writes a checkpoint of everything, which does not depend on the ranks. The
// leading one does, with what the others have.
func (t *trainer) save() error {
	moments, err := t.current.opt.State()
	if err != nil {
		return err
	}
	tensors, err := t.savePruning()
	if err != nil {
		return err
	}
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
	return t.writeCheckpoint(tensors)
}

// writeCheckpoint writes tensors with where training stands, and forgets checkpoints that are not kept.
func (t *trainer) writeCheckpoint(tensors []ckpt.Tensor) error {
	state, err := json.Marshal(t.pos)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	plan, err := json.Marshal(planRecord{t.kernels.choices})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	root := t.dir.File("checkpoints")
	meta := ckpt.Meta{Step: t.pos.Step, Epoch: t.pos.Epoch, Version: t.model.Version, ConfigHash: t.hash, State: state, Plan: plan}
	if _, err := ckpt.Save(root, meta, tensors); err != nil {
		return err
	}
	if t.pos.BestEpoch == t.pos.Epoch && t.pos.Batch == 0 && t.pos.Epoch > 0 {
		if err := ckpt.MarkBest(root, t.pos.Step); err != nil {
			return err
		}
	}
	return ckpt.Retain(root, t.current.cfg.Checkpoint.Keep)
}

// restore goes to where a checkpoint was saved.
//
// Errors: exit 65 if its tensors are not those of this network.
func (t *trainer) restore(c *ckpt.Checkpoint) error {
	unreadable := func(what string, err error) error {
		return &exit.Error{Code: exit.BadData, What: "the checkpoint's " + what + " cannot be read", At: c.Dir, Why: err.Error(), Fix: "remove that checkpoint and resume from the one before it"}
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
	t.current.best = part(partBest)
	if err := t.restorePruning(part(partPruning), part(partRewind)); err != nil {
		return unreadable("mask", err)
	}
	return nil
}
