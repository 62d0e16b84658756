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
	mask   *prune.Pruner // nil if nothing is pruned
	layers []prune.Layer // of the network, also those that are not pruned
	early  model.Weights // of prune.from, with lottery until it goes back to them
	// kept are the blocks of filters that are not masked, for kernels that leave the others out;
	// plans were compiled for those of known.
	kept, known map[string]op.Kept
	flops       int64      // of a batch, without
	importance  importance // of channels
}

// pruned is the part of a position that pruning needs.
type pruned struct {
	prune.Counters
	// Early is where the training stood at prune.from, with lottery.
	Early *position `json:"early,omitempty"`
	// Skipped are the steps before that, which the optimiser has forgotten since it went back.
	Skipped int `json:"skipped,omitempty"`
}

// Parts of a checkpoint with what pruning needs.
const (
	partPruning = "prune."
	partEarly   = "early."
)

// beginPruning makes the pruner of the present network, whose optimiser is there.
//
// Errors: exit 64 for a target that its layers do not allow, exit 69 for kernels that the device
// does not have.
func (t *trainer) beginPruning() error {
	o, n := t.prune, t.now
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
			Why: fmt.Sprintf("prune.from is %s and prune.to %s of %d steps", o.From, o.To, t.steps(t.batches())*n.cfg.Epochs), Fix: "let prune.from come earlier, or train longer"}
	}
	p.Seed = t.seed()
	n.pruning.flops = n.train.Plan.FLOPs()
	n.pruning.layers = prune.Layers(g, n.store.Entries())
	if n.pruning.mask, err = prune.New(n.pruning.layers, len(n.store.Params()), p); err != nil {
		return err
	}
	if t.at.Pruned == nil { // else it comes from a checkpoint
		t.at.Pruned = &pruned{}
	}
	return t.masked()
}

// pruneOptions are those of a training of so many steps. The last change comes before the last
// step, whatever the configuration, so that what is trained in the end has the mask.
func pruneOptions(o config.Prune, epochs, steps int) prune.Options {
	at := func(m config.Moment) int { return int(math.Round(m.Of(epochs) * float64(steps))) }
	return prune.Options{
		Method: prune.Method(o.Method), Scope: prune.Scope(o.ScopeOf()),
		Structure: prune.Structure{Pattern: prune.Pattern(o.Structure), Block: prune.Block{Out: o.Block.Out, In: o.Block.In}},
		Target:    o.Target, Initial: o.Initial, From: at(o.From), To: min(at(o.To), steps-1), Every: o.Every,
		Exchange: o.Exchange, Settle: prune.Settle{Distance: o.Settle.Distance, Epochs: o.Settle.Epochs},
		Spare: stays(o.Keep),
	}
}

// pruneOptions are those of the present network.
func (t *trainer) pruneOptions() prune.Options {
	epochs := t.now.cfg.Epochs
	return pruneOptions(t.prune, epochs, t.steps(t.batches())*epochs)
}

// masked hands the present mask to the optimiser. All ranks do, and see that it is the same.
func (t *trainer) masked() error {
	p := &t.now.pruning
	if err := t.ranks.Same("the mask of what is pruned", p.mask.Hash()); err != nil {
		return err
	}
	if p.mask.Nested() && t.prune.Kernels != config.DenseKernels {
		p.kept = p.keptBlocks()
	}
	return t.now.opt.Mask(p.mask.Fixed())
}

// skipBlocks compiles the plans again, if kernels can leave out more blocks than they do. That
// changes no bit, and the choices of kernels are made by rule.
func (t *trainer) skipBlocks() error {
	p := &t.now.pruning
	if p.mask == nil || maps.Equal(p.kept, p.known) {
		return nil
	}
	p.known = p.kept
	if err := t.again(func(model.Weights) {}); err != nil {
		return err
	}
	if err := t.now.opt.Mask(p.mask.Fixed()); err != nil {
		return err
	}
	return t.dir.Events().Write("blocks", t.at.Step, t.at.Epoch+1, rundir.Value{Name: "operations", Value: float64(t.now.train.Plan.FLOPs()) / float64(p.flops)})
}

// skipped are steps that the optimiser has forgotten.
func (t *trainer) skipped() int {
	if t.at.Pruned == nil {
		return 0
	}
	return t.at.Pruned.Skipped
}

// pruneStep changes the mask if that is due, between the gradient of a step and the step. It
// tells whether the training stands somewhere else now.
func (t *trainer) pruneStep(rate float64) (back bool, err error) {
	if err := t.observeChannels(); err != nil {
		return false, err
	}
	n := t.now
	p := n.pruning.mask
	if p == nil || p.Final() {
		return false, nil
	}
	lottery := t.prune.Method == config.LotteryPruning
	if lottery && n.pruning.early == nil && t.ownSteps() >= t.pruneOptions().From {
		early := t.at
		early.Pruned = nil
		n.pruning.early, t.at.Pruned.Early = model.WeightsOf(n.store), &early
	}
	p.Uncover(n.store.Params)
	changed, err := p.Step(t.ownSteps(), rate, n.store.Params, n.opt)
	if err != nil || !changed {
		return false, err
	}
	if lottery {
		return true, t.goBack()
	}
	return false, t.masked()
}

// pruneAfter is what comes behind a step, and is counted with it.
func (t *trainer) pruneAfter() error {
	if n := t.now; n.pruning.mask != nil {
		n.pruning.mask.Cover(n.store.Params, n.average)
	}
	return t.skipBlocks()
}

// goBack goes to where the training stood at prune.from, with the mask that was drawn since.
func (t *trainer) goBack() error {
	n, was := t.now, t.at
	if err := model.Fill(n.store, n.pruning.early); err != nil {
		return err
	}
	n.opt.Restart()
	t.at = *was.Pruned.Early
	t.at.LossScale = was.LossScale
	t.at.LossScale.Skipped = 0 // the optimiser has forgotten those too
	t.at.Step, t.at.BestLoss, t.at.BestEpoch = was.Step, noBest, t.at.Epoch
	t.at.Pruned = &pruned{Skipped: t.ownSteps()}
	n.pruning.early = nil
	n.feed.end()
	n.feed = nil
	t.data.Source.Keep(t.schedule())
	return t.masked()
}

// pruneEpoch is told of the end of an epoch.
func (t *trainer) pruneEpoch() error {
	mask := t.now.pruning.mask
	if mask == nil {
		return nil
	}
	changed, err := mask.Epoch(t.ownSteps(), t.now.store.Params)
	if err != nil || !changed {
		return err
	}
	return t.masked()
}

// unfinished says whether the mask will still change. What is trained until then is not kept, as
// weights of another mask, or of none, would be compared with those that are wanted.
func (p pruning) unfinished() bool { return p.mask != nil && !p.mask.Final() }

// values are those of an event.
func (p pruning) values() []rundir.Value {
	if p.mask == nil {
		return nil
	}
	return []rundir.Value{{Name: "sparsity", Value: p.mask.Sparsity()}}
}

// savePruning gives what a checkpoint needs of it. All ranks call it.
func (t *trainer) savePruning() ([]ckpt.Tensor, error) {
	p := &t.now.pruning
	if p.mask == nil {
		return p.importance.tensors(), nil
	}
	counters, state, err := p.mask.State(t.now.opt)
	if err != nil {
		return nil, err
	}
	t.at.Pruned.Counters = counters
	var out []ckpt.Tensor
	for _, x := range state {
		out = append(out, ckpt.Tensor{Name: partPruning + x.Name, Shape: x.Shape, Data: x.Data})
	}
	for _, x := range p.early {
		x.Name = partEarly + x.Name
		out = append(out, x)
	}
	return out, nil
}

// restorePruning goes to where a checkpoint with those parts was saved; weights, average and
// moments are there already.
func (t *trainer) restorePruning(state, early model.Weights) error {
	p := &t.now.pruning
	if p.mask == nil {
		return p.importance.restore(state)
	}
	p.early = early
	value := func(name string) any {
		for _, x := range state {
			if x.Name == name {
				return x.Data
			}
		}
		return nil
	}
	if err := p.mask.Restore(t.at.Pruned.Counters, value); err != nil {
		return err
	}
	if err := t.masked(); err != nil {
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
				rows, columns := l.Matrix()
				s.Bytes[prune.TwoFourFormat] += prune.TwoFourFormat.Bytes(rows, columns, 0)
			}
		}
		out = append(out, s)
	}
	return out, nil
}
