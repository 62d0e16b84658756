package run

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// hasSparseKernels tells whether the kernels of the CPU skip what a pruning removes: whole
// blocks of op.FilterBlock channels.
func hasSparseKernels(o config.Prune) bool {
	return o.Structure == config.BlockStructure && prune.Taps(o.Block.Taps) == prune.AllTaps &&
		o.Block.Out%op.FilterBlock == 0 && o.Block.In%op.FilterBlock == 0
}

// keptBlocks are the blocks of filters in which the mask keeps something, of filters with
// blocks in which it keeps nothing.
func (p pruning) keptBlocks() map[string]op.Kept {
	found := map[string]op.Kept{}
	keep := p.mask.Keep()
	for _, l := range p.mask.Layers() {
		if l.Transposed {
			continue
		}
		w := make([]float32, l.Size())
		for i := range w {
			if keep[l.Offset+i] {
				w[i] = 1
			}
		}
		if k := op.KeptOf(w, graph.Shape{l.Out, l.In, l.Taps()}); k != "" {
			found[l.Param] = k
		}
	}
	return found
}

// leaveOutBlocks compiles the plans of training and validation anew once the mask stays as it
// is, so that kernels may leave out the blocks that it removes: no bit changes. On several
// ranks, and where members vary in number, the plans stay as they are.
func (t *trainer) leaveOutBlocks() error {
	p := &t.prune
	if p.mask == nil || p.told || !p.mask.Final() || t.ranks != nil || t.plansOfMembers() > 1 {
		return nil
	}
	p.told = true
	kept := p.keptBlocks()
	if len(kept) == 0 {
		return nil
	}
	spec := t.model.Spec.of(t.turns[t.at.Network].stage)
	spec.Kept = t.at.Kept
	o := trainOptions(t.cfg, t.table)
	o.Choices, o.Kept = t.choices, kept
	again := func(n **network, samples int) error {
		if err := (*n).plan.Close(); err != nil {
			return err
		}
		var err error
		*n, err = spec.compile(&t.model.Task, t.model.Grid, samples, t.seed(), true, o, nil)
		return t.namedMemory(err)
	}
	o.Store = t.store
	err := again(&t.net, t.cfg.BatchSize)
	if err == nil {
		o.Mode, o.Store = engine.Infer, t.shown
		spec.Bias.Smooth = 0 // as in plans
		err = again(&t.eval, 1)
	}
	t.timings.save(t.table)
	return err
}
