package model

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// KeptBlocks finds the blocks of filters that are not entirely 0 in the networks of the model.
// Kernels for networks pruned by blocks skip the others.
//
// Errors: those of reading the weights.
func (m *Model) KeptBlocks() (map[string]op.BlockMask, error) {
	if m.weightsFile == nil {
		return keptBlocks(slices.Concat(m.Networks, m.Spreads)...)
	}
	found, room := map[string]op.BlockMask{}, []float32(nil)
	for _, e := range m.weightsFile.Entries() {
		if len(e.Shape) < 3 { // not a filter
			continue
		}
		n := graph.Shape(e.Shape).Size()
		room = slices.Grow(room[:0], n)[:n]
		if err := m.weightsFile.Float32(room, e.Name); err != nil {
			return nil, err
		}
		if k := op.BlockMaskOf(room, e.Shape); k != "" {
			found[e.Name] = k
		}
	}
	return found, nil
}

// keptBlocks finds the blocks that are not 0 in at least one of several networks, for filters in
// which all networks have zero blocks.
func keptBlocks(networks ...Weights) (map[string]op.BlockMask, error) {
	found := map[string]op.BlockMask{}
	for i, w := range networks {
		here := map[string]op.BlockMask{}
		for _, t := range w {
			v, err := t.Float32()
			if err != nil {
				return nil, err
			}
			if k := op.BlockMaskOf(v, t.Shape); k != "" {
				here[t.Name] = k
			}
		}
		if i == 0 {
			found = here
			continue
		}
		for name, k := range found {
			if found[name] = k.Or(here[name]); found[name] == "" {
				delete(found, name)
			}
		}
	}
	return found, nil
}
