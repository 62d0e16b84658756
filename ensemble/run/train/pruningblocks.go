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
