package model

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// ZeroBlocks finds which blocks of filters are kept in the weights of the networks that take
// turns in the plan of a model: one that was pruned by blocks is predicted by kernels that
// leave the others out.
//
// Errors: of reading the weights.
func (m *Model) ZeroBlocks() (map[string]op.Kept, error) {
	if m.stored == nil {
		return zeroBlocksOf(slices.Concat(m.Networks, m.Spreads)...)
	}
	found, room := map[string]op.Kept{}, []float32(nil)
	for _, e := range m.stored.Entries() {
		if len(e.Shape) < 3 { // no filter
			continue
		}
		n := graph.Shape(e.Shape).Size()
		room = slices.Grow(room[:0], n)[:n]
		if err := m.stored.Float32(room, e.Name); err != nil {
			return nil, err
		}
		if k := op.KeptOf(room, e.Shape); k != "" {
			found[e.Name] = k
		}
	}
	return found, nil
}

// zeroBlocksOf are the blocks that are kept in any of several networks, of filters of which
// some are zero in all.
func zeroBlocksOf(networks ...Weights) (map[string]op.Kept, error) {
	found := map[string]op.Kept{}
	for i, w := range networks {
		here := map[string]op.Kept{}
		for _, t := range w {
			v, err := t.Float32()
			if err != nil {
				return nil, err
			}
			if k := op.KeptOf(v, t.Shape); k != "" {
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
