package train

import (
	"maps"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// hasSparseKernels reports whether CPU kernels can skip the pruned weights: whole blocks of op.FilterBlock
// channels.
func hasSparseKernels(o config.Prune) bool {
	return o.Structure == config.BlockStructure && o.Block.Out%op.FilterBlock == 0 && o.Block.In%op.FilterBlock == 0
}

// maskedBlocks are the blocks of filters that kernels do not skip, of the filters that have masked blocks.
type maskedBlocks struct {
	unmasked map[string]op.BlockMask // those of the filter
	// trained are those of its gradient; empty for all. Nil: as unmasked.
	trained map[string]op.BlockMask
}

// equal reports whether both have the same blocks.
func (b maskedBlocks) equal(c maskedBlocks) bool {
	return maps.Equal(b.unmasked, c.unmasked) && maps.Equal(b.trained, c.trained)
}

// haveCountsOf reports whether both have as many blocks of each filter.
func (b maskedBlocks) haveCountsOf(c maskedBlocks) bool {
	alike := func(x, y op.BlockMask) bool {
		n, _ := x.Count()
		m, _ := y.Count()
		return n == m
	}
	return maps.EqualFunc(b.unmasked, c.unmasked, alike) && maps.EqualFunc(b.trained, c.trained, alike)
}

// keptBlocks returns the blocks of filters with fully masked blocks that are not fully masked.
func (p pruning) keptBlocks() (found maskedBlocks) {
	found.unmasked = map[string]op.BlockMask{}
	if p.replacesBlocks {
		found.trained = map[string]op.BlockMask{}
	}
	for _, l := range p.mask.Layers() {
		if l.Transposed {
			continue
		}
		k := blocksOf(l, p.mask.Mask())
		if k == "" {
			continue
		}
		found.unmasked[l.Param] = k
		if p.replacesBlocks {
			found.trained[l.Param] = blocksOf(l, p.mask.GradientMask())
		}
	}
	return found
}

// blocksOf returns the blocks of a filter that a mask does not remove entirely; empty if that is all.
func blocksOf(l prune.Layer, keep []bool) op.BlockMask {
	w := make([]float32, l.Size())
	for i := range w {
		if keep[l.Offset+i] {
			w[i] = 1
		}
	}
	return op.BlockMaskOf(w, graph.Shape{l.Out, l.In, l.Taps()})
}

// canReplaceBlocks reports whether the plans may skip masked blocks although these return later: the number of blocks
// of a layer is constant (SET, RigL, Top-KAST), and the gradient of the others is needed at changes of the mask at most. Gradients that are sent
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
		if err := n.Plan.SetBlockMasks(t.current.pruning.blocks.unmasked, gradients); err != nil {
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
	return t.replaceBlocks(p.blocks.trained)
}
