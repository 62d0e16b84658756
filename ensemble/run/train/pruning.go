package train

import (
	"fmt"
	"maps"
	"math"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// pruning is what the training of the present network knows of its pruning.
type pruning struct {
	mask          *prune.Pruner // nil if nothing is pruned
	layers        []prune.Layer // of the network, also those that are not pruned
	rewindWeights model.Weights // of prune.from, with lottery until it goes back to them
	// unmasked are the blocks of filters that are not masked, for kernels that leave the others out;
	// plans were compiled for those of known.
	unmasked, compiledFor map[string]op.BlockMask
	flops                 int64      // of a batch, without
	importance            importance // of channels
}

// pruningPosition is the part of a position that pruning needs.
type pruningPosition struct {
	prune.Counters
	// Rewind is where the training stood at prune.from, with lottery.
	Rewind *position `json:"rewind,omitempty"`
	// Skipped are the steps before that, which the optimiser has forgotten since it went back.
	Skipped int `json:"skipped,omitempty"`
}

// Parts of a checkpoint with what pruning needs.
const (
	partPruning = "prune."
	partRewind  = "early."
)

// beginPruning makes the pruner of the present network, whose optimiser is there.
//
// Errors: exit 64 for a target that its layers do not allow, exit 69 for kernels that the device
// does not have.
func (t *trainer) beginPruning() error {
	o, n := t.prune, t.current
	if o.Method == config.NoPruning || o.Structure == config.ChannelStructure { // see removal
		return nil
	}
	if o.Kernels == config.SparseKernels && !hasSparseKernels(o) {
		return &exit.Error{Code: exit.NoDevice, What: "no kernel of the CPU skips the zeros of structure " + o.Structure, At: "prune.kernels",
			Why: fmt.Sprintf("they skip blocks of multiples of %d channels with all taps: others would be as slow as dense networks", op.FilterBlock),
			Fix: "set prune.kernels: auto, or prune.structure: " + config.BlockStructure}
	}
	g, err := t.model.Spec.Graph(&t.model.Task, t.model.Grid, n.cfg.BatchSize, t.seed(), true)
	if err != nil {
		return err
	}
	p := t.pruneOptions()
	if p.From >= p.To {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("pruning begins and ends with step %d", p.To), At: "prune.from",
			Why: fmt.Sprintf("prune.from is %s and prune.to %s of %d steps", o.From, o.To, t.stepCount(t.epochBatches())*n.cfg.Epochs), Fix: "let prune.from come earlier, or train longer"}
	}
	p.Seed = t.seed()
	n.pruning.flops = n.train.Plan.FLOPs()
	n.pruning.layers = prune.Layers(g, n.store.Entries())
	if n.pruning.mask, err = prune.New(n.pruning.layers, len(n.store.Params()), p); err != nil {
		return err
	}
	if t.pos.Pruned == nil { // else it comes from a checkpoint
		t.pos.Pruned = &pruningPosition{}
	}
	return t.applyMask()
}

// pruneOptions are those of a training of so many steps. The last change comes before the last
// step, whatever the configuration, so that what is trained in the end has the mask.
func pruneOptions(o config.Prune, epochs, steps int) prune.Options {
	at := func(m config.TrainingTime) int { return int(math.Round(m.Fraction(epochs) * float64(steps))) }
	return prune.Options{
		Method: prune.Method(o.Method), Scope: prune.Scope(o.EffectiveScope()),
		Structure: prune.Structure{Pattern: prune.Pattern(o.Structure), Block: prune.Block{Out: o.Block.Out, In: o.Block.In}},
		Target:    o.Target, Initial: o.Initial, From: at(o.From), To: min(at(o.To), steps-1), Every: o.Every,
		DropFraction: o.DropFraction, Stability: prune.MaskStability{Distance: o.EarlyBird.Distance, Epochs: o.EarlyBird.Epochs},
		Exclude: layerMatcher(o.Keep),
	}
}

// pruneOptions are those of the present network.
func (t *trainer) pruneOptions() prune.Options {
	epochs := t.current.cfg.Epochs
	return pruneOptions(t.prune, epochs, t.stepCount(t.epochBatches())*epochs)
}

// applyMask hands the present mask to the optimiser. All ranks do, and see that it is the same.
func (t *trainer) applyMask() error {
	p := &t.current.pruning
	if err := t.ranks.CheckSame("the mask of what is pruned", p.mask.Hash()); err != nil {
		return err
	}
	if p.mask.IsNested() && t.prune.Kernels != config.DenseKernels {
		p.unmasked = p.keptBlocks()
	}
	return t.current.opt.SetMask(p.mask.FixedMask())
}

// skipBlocks compiles the plans again, if kernels can leave out more blocks than they do. That
// changes no bit, and the choices of kernels are made by rule.
func (t *trainer) skipBlocks() error {
	p := &t.current.pruning
	if p.mask == nil || maps.Equal(p.unmasked, p.compiledFor) {
		return nil
	}
	p.compiledFor = p.unmasked
	if err := t.recompile(func(model.Weights) {}); err != nil {
		return err
	}
	if err := t.current.opt.SetMask(p.mask.FixedMask()); err != nil {
		return err
	}
	return t.dir.Events().Write("blocks", t.pos.Step, t.pos.Epoch+1, rundir.Value{Name: "operations", Value: float64(t.current.train.Plan.FLOPs()) / float64(p.flops)})
}

// stepsBeforeRewind are steps that the optimiser has forgotten.
func (t *trainer) stepsBeforeRewind() int {
	if t.pos.Pruned == nil {
		return 0
	}
	return t.pos.Pruned.Skipped
}

// pruneStep changes the mask if that is due, between the gradient of a step and the step. It
// tells whether the training stands somewhere else now.
func (t *trainer) pruneStep(rate float64) (back bool, err error) {
	if err := t.observeChannels(); err != nil {
		return false, err
	}
	n := t.current
	p := n.pruning.mask
	if p == nil || p.IsFinal() {
		return false, nil
	}
	lottery := t.prune.Method == config.LotteryPruning
	if lottery && n.pruning.rewindWeights == nil && t.networkSteps() >= t.pruneOptions().From {
		early := t.pos
		early.Pruned = nil
		n.pruning.rewindWeights, t.pos.Pruned.Rewind = model.CopyWeights(n.store), &early
	}
	p.UnmaskWeights(n.store.Params)
	changed, err := p.Step(t.networkSteps(), rate, n.store.Params, n.opt)
	if err != nil || !changed {
		return false, err
	}
	if lottery {
		return true, t.rewind()
	}
	return false, t.applyMask()
}

// pruneAfter is what comes behind a step, and is counted with it.
func (t *trainer) pruneAfter() error {
	if n := t.current; n.pruning.mask != nil {
		n.pruning.mask.MaskWeights(n.store.Params, n.average)
	}
	return t.skipBlocks()
}

// rewind goes to where the training stood at prune.from, with the mask that was drawn since.
func (t *trainer) rewind() error {
	n, was := t.current, t.pos
	if err := model.Fill(n.store, n.pruning.rewindWeights); err != nil {
		return err
	}
	n.opt.Reset()
	t.pos = *was.Pruned.Rewind
	t.pos.LossScale = was.LossScale
	t.pos.LossScale.Skipped = 0 // the optimiser has forgotten those too
	t.pos.Step, t.pos.BestLoss, t.pos.BestEpoch = was.Step, noBest, t.pos.Epoch
	t.pos.Pruned = &pruningPosition{Skipped: t.networkSteps()}
	n.pruning.rewindWeights = nil
	n.feed.end()
	n.feed = nil
	t.data.Source.PlanCaches(t.schedule())
	return t.applyMask()
}

// pruneEpoch is told of the end of an epoch.
func (t *trainer) pruneEpoch() error {
	mask := t.current.pruning.mask
	if mask == nil {
		return nil
	}
	changed, err := mask.EndEpoch(t.networkSteps(), t.current.store.Params)
	if err != nil || !changed {
		return err
	}
	return t.applyMask()
}

// isMaskChanging says whether the mask will still change. What is trained until then is not kept, as
// weights of another mask, or of none, would be compared with those that are wanted.
func (p pruning) isMaskChanging() bool { return p.mask != nil && !p.mask.IsFinal() }

// eventValues are those of an event.
func (p pruning) eventValues() []rundir.Value {
	if p.mask == nil {
		return nil
	}
	return []rundir.Value{{Name: "sparsity", Value: p.mask.Sparsity()}}
}

// savePruning gives what a checkpoint needs of it. All ranks call it.
func (t *trainer) savePruning() ([]ckpt.Tensor, error) {
	p := &t.current.pruning
	if p.mask == nil {
		return p.importance.tensors(), nil
	}
	counters, state, err := p.mask.State(t.current.opt)
	if err != nil {
		return nil, err
	}
	t.pos.Pruned.Counters = counters
	var out []ckpt.Tensor
	for _, x := range state {
		out = append(out, ckpt.Tensor{Name: partPruning + x.Name, Shape: x.Shape, Data: x.Data})
	}
	for _, x := range p.rewindWeights {
		x.Name = partRewind + x.Name
		out = append(out, x)
	}
	return out, nil
}

// restorePruning goes to where a checkpoint with those parts was saved; weights, average and
// moments are there already.
func (t *trainer) restorePruning(state, early model.Weights) error {
	p := &t.current.pruning
	if p.mask == nil {
		return p.importance.restore(state)
	}
	p.rewindWeights = early
	value := func(name string) any {
		for _, x := range state {
			if x.Name == name {
				return x.Data
			}
		}
		return nil
	}
	if err := p.mask.Restore(t.pos.Pruned.Counters, value); err != nil {
		return err
	}
	if err := t.applyMask(); err != nil {
		return err
	}
	return t.skipBlocks()
}

// sparsities are those of the networks that were trained, of layers that may be pruned; none if nothing was pruned.
func (t *trainer) sparsities(layers []prune.Layer) (out []model.Sparsity, err error) {
	if layers == nil {
		return nil, nil
	}
	for _, w := range t.finished {
		s, err := model.SparsityOf(layers, w)
		if err != nil {
			return nil, err
		}
		if t.prune.Structure == config.TwoFourStructure && t.prune.Target == 0.5 {
			for _, l := range layers {
				rows, columns := l.MatrixShape()
				s.Bytes[prune.TwoFourFormat] += prune.TwoFourFormat.Bytes(rows, columns, 0)
			}
		}
		out = append(out, s)
	}
	return out, nil
}
