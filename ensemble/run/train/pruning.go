package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// pruning is the state of pruning by masks in the training of the current network.
type pruning struct {
	mask             *prune.Pruner // nil if nothing is pruned
	layers           []prune.Layer // all layers, including those that are not pruned
	rewindWeights    model.Weights // weights at prune.from, for lottery rewinding
	blocks, compiled maskedBlocks  // for the present mask, and those that the plans were compiled for
	// replacesBlocks reports that the plans take new blocks without being compiled again.
	replacesBlocks bool
	flops          int64      // FLOPs of a batch without pruning
	importance     importance // scores of channels
}

// pruningPosition is the part of a position that belongs to pruning by masks.
type pruningPosition struct {
	prune.Counters
	// Rewind is the position at prune.from, for lottery rewinding.
	Rewind *position `json:"rewind,omitempty"`
	// Skipped is the number of steps before prune.from, which the restarted optimiser does not count.
	Skipped int `json:"skipped,omitempty"`
}

// Prefixes of the tensors of pruning in a checkpoint.
const (
	partPruning = "prune."
	partRewind  = "rewind."
)

// beginPruning creates the pruner of the current network, after its optimiser.
//
// Errors: exit 64 for a target that the layers do not allow; 69 if the device has no sparse kernels.
func (t *trainer) beginPruning() error {
	o, n := t.prune, t.current
	if o.Method == config.NoPruning || o.Structure == config.ChannelStructure { // channels are removed by channelRemoval
		return nil
	}
	if o.Kernels == config.SparseKernels {
		if err := checkSparseKernels(o, n.train.Plan.HasTwoFourKernels()); err != nil {
			return err
		}
	}
	g, err := t.model.Spec.Graph(&t.model.Task, t.model.Grid, n.cfg.BatchSize, t.seed(), true)
	if err != nil {
		return err
	}
	p := t.pruneOptions()
	if p.From >= p.To {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("pruning starts and ends at step %d", p.To), At: "prune.from",
			Why: fmt.Sprintf("prune.from is %s and prune.to %s of %d steps", o.From, o.To, t.stepCount(t.epochBatches())*n.cfg.Epochs), Fix: "set an earlier prune.from, or train longer"}
	}
	p.Seed = t.seed()
	n.pruning.flops = n.train.Plan.FLOPs()
	n.pruning.layers = prune.Layers(g, n.store.Entries())
	if n.pruning.mask, err = prune.New(n.pruning.layers, len(n.store.Params()), p); err != nil {
		return err
	}
	if t.pos.Pruned == nil { // otherwise from a checkpoint
		t.pos.Pruned = &pruningPosition{}
	}
	n.pruning.mask.MaskWeights(n.store.Params, n.average) // weights that are masked at first may have values too
	if err := t.applyMask(); err != nil {
		return err
	}
	return t.skipBlocks()
}

// checkSparseKernels refuses structures whose zeros no kernel skips. twoFour reports whether the device has kernels
// for 2:4 in the precision of the training, for predictions.
//
// Errors: exit 69.
func checkSparseKernels(o config.Prune, twoFour bool) error {
	fail := &exit.Error{Code: exit.NoDevice, What: "no kernel of this device skips the zeros of prune.structure: " + o.Structure, At: "prune.kernels",
		Fix: "set prune.kernels: auto, or prune.structure: " + config.BlockStructure}
	switch {
	case o.Structure == config.TwoFourStructure && !twoFour:
		fail.Why = "2:4 needs a GPU with sparse tensor cores (compute capability 8.0 or later), and precision bf16 or f16"
	case o.Structure != config.TwoFourStructure && !hasSparseKernels(o):
		fail.Why = fmt.Sprintf("kernels skip blocks of multiples of %d channels with all taps; other patterns would be as slow as dense networks", op.FilterBlock)
	default:
		return nil
	}
	return fail
}

// PruneOptions returns the pruner's options for a training of steps steps. The last change of the mask
// comes before the last step, so that the final weights are trained with the final mask.
func PruneOptions(o config.Prune, epochs, steps int) prune.Options {
	at := func(m config.TrainingTime) int { return int(math.Round(m.Fraction(epochs) * float64(steps))) }
	return prune.Options{
		Method: prune.Method(o.Method), Scope: prune.Scope(o.EffectiveScope()),
		Structure: prune.Structure{Pattern: prune.Pattern(o.Structure), Block: prune.Block{Out: o.Block.Out, In: o.Block.In}},
		Target:    o.Target, Initial: o.Initial, From: at(o.From), To: min(at(o.To), steps-1), Every: o.Every,
		DropFraction: o.DropFraction, MaskedDecay: o.MaskedDecay, Stability: prune.MaskStability{Distance: o.EarlyBird.Distance, Epochs: o.EarlyBird.Epochs},
		Exclude: o.Keeps,
	}
}

// pruneOptions returns the pruner's options of the current network.
func (t *trainer) pruneOptions() prune.Options {
	epochs := t.current.cfg.Epochs
	return PruneOptions(t.prune, epochs, t.stepCount(t.epochBatches())*epochs)
}

// applyMask passes the mask to the optimiser. All ranks call it, and must have the same mask.
func (t *trainer) applyMask() error {
	p := &t.current.pruning
	if err := t.ranks.CheckSame(team.Diverged("the pruning mask", p.mask.Hash())); err != nil {
		return err
	}
	p.replacesBlocks = p.replacesBlocks || t.canReplaceBlocks()
	if (p.mask.IgnoresMaskedGradient() || p.replacesBlocks) && t.prune.Kernels != config.DenseKernels {
		p.blocks = p.keptBlocks()
	}
	return t.current.opt.SetMask(p.mask.FixedMask())
}

// skipBlocks gives the plans the blocks of a new mask: by recompiling them if kernels can skip more blocks than
// before, or by other lists of blocks for the same kernels. This changes no bits, as kernels are then chosen by rule.
func (t *trainer) skipBlocks() error {
	p := &t.current.pruning
	if p.mask == nil || p.blocks.equal(p.compiled) {
		return nil
	}
	before := p.compiled
	p.compiled = p.blocks
	if p.replacesBlocks && p.blocks.haveCountsOf(before) {
		return t.replaceBlocks(p.blocks.trained)
	}
	if err := t.recompile(func(model.Weights) {}); err != nil {
		return err
	}
	if err := t.current.opt.SetMask(p.mask.FixedMask()); err != nil {
		return err
	}
	return t.dir.Events().Write("blocks", t.pos.Step, t.pos.Epoch+1, rundir.Value{Name: "operations", Value: float64(t.current.train.Plan.FLOPs()) / float64(p.flops)})
}

// stepsBeforeRewind is the number of steps before the last rewind.
func (t *trainer) stepsBeforeRewind() int {
	if t.pos.Pruned == nil {
		return 0
	}
	return t.pos.Pruned.Skipped
}

// pruneStep updates the mask if due, between gradient and optimiser step. back reports that the training was
// rewound.
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
		n.pruning.rewindWeights, t.pos.Pruned.Rewind = n.weightsBefore(), &early
	}
	p.UnmaskWeights(n.store.Params)
	changed, err := p.Step(t.networkSteps(), rate, n.store.Params, n.opt)
	if err != nil || !changed {
		return false, err
	}
	if lottery {
		return true, t.rewind()
	}
	return false, t.changeMask()
}

// weightsBefore copies the weights before the current step. The states (running statistics) of the store are already
// those after its forward pass.
func (n *currentNetwork) weightsBefore() model.Weights {
	after := slices.Clone(n.store.States())
	copy(n.store.States(), n.statesBefore)
	w := model.CopyWeights(n.store)
	copy(n.store.States(), after)
	return w
}

// changeMask passes a new mask to the optimiser. The plateau schedule compares later losses with those of the present
// network only.
func (t *trainer) changeMask() error {
	t.pos.Plateau.Forget()
	t.startSchedule()
	return t.applyMask()
}

// pruneAfter applies the mask to weights and average after a step.
func (t *trainer) pruneAfter() error {
	if n := t.current; n.pruning.mask != nil {
		n.pruning.mask.MaskWeights(n.store.Params, n.average)
	}
	return t.skipBlocks()
}

// rewind returns to the weights and position at prune.from with the new mask (lottery-ticket rewinding). The
// learning rate returns too. The optimiser restarts, and with it the average of weights.
func (t *trainer) rewind() error {
	n, before := t.current, t.pos
	for _, s := range []*engine.Store{n.store, n.evalStore} {
		if err := model.Fill(s, n.pruning.rewindWeights); err != nil {
			return err
		}
	}
	n.opt.Reset()
	t.pos = *before.Pruned.Rewind
	t.pos.LossScale = before.LossScale
	t.pos.LossScale.Skipped = 0 // the restarted optimiser does not count them
	t.pos.Step, t.pos.BestLoss, t.pos.BestEpoch = before.Step, noBest, t.pos.Epoch
	t.pos.Pruned = &pruningPosition{Skipped: t.networkSteps()}
	n.pruning.rewindWeights, n.best = nil, nil
	n.feed.end()
	n.feed = nil
	t.planReads()
	if err := t.dir.Events().Write("rewind", t.pos.Step, t.pos.Epoch+1); err != nil {
		return err
	}
	return t.changeMask()
}

// pruneEpoch updates the pruner at the end of an epoch.
func (t *trainer) pruneEpoch() error {
	mask := t.current.pruning.mask
	if mask == nil {
		return nil
	}
	changed, err := mask.EndEpoch(t.networkSteps(), t.current.store.Params)
	if err != nil || !changed {
		return err
	}
	return t.changeMask()
}

// isMaskChanging reports whether the mask may still change. Weights before the final mask are not kept as the
// best: they would not be comparable with later ones.
func (p pruning) isMaskChanging() bool { return p.mask != nil && !p.mask.IsFinal() }

// eventValues returns the values for an epoch event.
func (p pruning) eventValues() []rundir.Value {
	if p.mask == nil {
		return nil
	}
	return []rundir.Value{{Name: "sparsity", Value: p.mask.Sparsity()}}
}

// savePruning returns the tensors of pruning for a checkpoint. All ranks call it.
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

// restorePruning restores pruning from a checkpoint, after weights, average and moments.
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

// sparsities returns the sparsity of each trained network, in layers that may be pruned; nil if nothing was
// pruned.
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
				s.Bytes[prune.TwoFourFormat] += l.TwoFourBytes()
			}
		}
		out = append(out, s)
	}
	return out, nil
}
