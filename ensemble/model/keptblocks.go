package model

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// KeptBlocks finds the blocks of filters that are not entirely 0 in the networks of the model.
// Kernels for networks pruned by blocks skip the others. A filter without a zero block is not in the
// result, which is empty for a dense model.
//
// Memory: one filter, if the weights are in their file.
// Errors: those of reading the weights.
func (m *Model) KeptBlocks() (map[string]op.BlockMask, error) {
	if m.weightsFile == nil {
		return keptBlocks(slices.Concat(m.Networks, m.Spreads)...)
	}
	found, values := map[string]op.BlockMask{}, []float32(nil)
	for _, e := range m.weightsFile.Entries() {
		if len(e.Shape) < 3 { // not a filter
			continue
		}
		n := graph.Shape(e.Shape).Size()
		values = slices.Grow(values[:0], n)[:n]
		if err := m.weightsFile.Float32(values, e.Name); err != nil {
			return nil, err
		}
		if k := op.BlockMaskOf(values, e.Shape); k != "" {
			found[e.Name] = k
		}
	}
	return found, nil
}

// keptBlocks finds the blocks that are not 0 in at least one of several networks, for filters in
// which all networks have zero blocks. The networks run in one compiled plan, so a block can be
// skipped only if it is 0 in all of them.
func keptBlocks(networks ...Weights) (map[string]op.BlockMask, error) {
	found := map[string]op.BlockMask{}
	for i, w := range networks {
		masks := map[string]op.BlockMask{}
		for _, t := range w {
			v, err := t.Float32()
			if err != nil {
				return nil, err
			}
			if k := op.BlockMaskOf(v, t.Shape); k != "" {
				masks[t.Name] = k
			}
		}
		if i == 0 {
			found = masks
			continue
		}
		for name, k := range found {
			if found[name] = k.Or(masks[name]); found[name] == "" {
				delete(found, name)
			}
		}
	}
	return found, nil
}
