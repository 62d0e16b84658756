package train

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// hasSparseKernels reports whether CPU kernels can skip the pruned weights: whole blocks of op.FilterBlock
// channels.
func hasSparseKernels(o config.Prune) bool {
	return o.Structure == config.BlockStructure && o.Block.Out%op.FilterBlock == 0 && o.Block.In%op.FilterBlock == 0
}

// keptBlocks returns, for filters with fully masked blocks, the blocks that are not fully masked.
func (p pruning) keptBlocks() map[string]op.BlockMask {
	found := map[string]op.BlockMask{}
	keep := p.mask.Mask()
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
		if k := op.BlockMaskOf(w, graph.Shape{l.Out, l.In, l.Taps()}); k != "" {
			found[l.Param] = k
		}
	}
	return found
}

// canReplaceBlocks reports whether the plans may skip masked blocks although these return later: the number of blocks
// of a layer is constant (SET, RigL), and their gradient is needed at changes of the mask only. Gradients that are sent
// in parts or late would miss masked blocks of earlier steps. Devices with memory of their own record their kernels.
func (t *trainer) canReplaceBlocks() bool {
	n := t.current
	return n.pruning.mask.IsRegrowing() && t.prune.Kernels != config.DenseKernels && hasSparseKernels(t.prune) && n.pipeline == nil &&
		!n.train.Plan.HasDeviceMemory() && !n.cfg.Compression.IsEnabled() && !n.cfg.Exchange.IsEnabled()
}

// replaceBlocks lets all plans skip the blocks that the mask removes; the gradients of filters those that
// gradients does not keep.
func (t *trainer) replaceBlocks(gradients map[string]op.BlockMask) error {
	for _, n := range t.current.networks() {
		if err := n.Plan.SetBlockMasks(t.current.pruning.unmasked, gradients); err != nil {
			return err
		}
	}
	return nil
}

// chooseGradients lets the next step compute the gradient of all blocks if it changes the mask, and else only that of
// the blocks that are not masked.
func (t *trainer) chooseGradients() error {
	p := &t.current.pruning
	switch {
	case !p.replacesBlocks:
		return nil
	case p.mask.NeedsMaskedGradient(t.networkSteps()):
		return t.replaceBlocks(nil)
	}
	return t.replaceBlocks(p.unmasked)
}
