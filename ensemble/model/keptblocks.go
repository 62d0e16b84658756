package model

import (
	"maps"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// zeroPatterns are the zeros of filters that kernels can skip, by the names of parameters.
type zeroPatterns struct {
	kept    map[string]op.BlockMask // blocks that are not 0, of filters with zero blocks
	twoFour map[string]bool         // filters with at most two values of four that are not 0
}

// add finds the patterns of a filter.
func (z *zeroPatterns) add(name string, values []float32, s graph.Shape) {
	if k := op.BlockMaskOf(values, s); k != "" {
		z.kept[name] = k
	}
	if op.IsTwoFour(values, s) {
		z.twoFour[name] = true
	}
}

// KeptBlocks finds the blocks of filters that are not entirely 0 in the networks of the model.
// Kernels for networks pruned by blocks skip the others. A filter without a zero block is not in the
// result, which is empty for a dense model.
//
// Memory: one filter, if the weights are in their file.
// Errors: those of reading the weights.
func (m *Model) KeptBlocks() (map[string]op.BlockMask, error) {
	z, err := m.zeroPatterns()
	return z.kept, err
}

// zeroPatterns finds the zeros that kernels can skip in the networks of the model.
func (m *Model) zeroPatterns() (zeroPatterns, error) {
	if m.weightsFile == nil {
		return findZeroPatterns(slices.Concat(m.Networks, m.Spreads)...)
	}
	found, values := zeroPatterns{map[string]op.BlockMask{}, map[string]bool{}}, []float32(nil)
	for _, e := range m.weightsFile.Entries() {
		if len(e.Shape) < 3 { // not a filter
			continue
		}
		n := graph.Shape(e.Shape).Size()
		values = slices.Grow(values[:0], n)[:n]
		if err := m.weightsFile.Float32(values, e.Name); err != nil {
			return found, err
		}
		found.add(e.Name, values, e.Shape)
	}
	return found, nil
}

// findZeroPatterns finds the zeros that all of several networks have: the networks run in one compiled
// plan, so a block can be skipped only if it is 0 in all of them, and 2:4 is the pattern of a filter only if it is that of all.
func findZeroPatterns(networks ...Weights) (found zeroPatterns, err error) {
	for i, w := range networks {
		z := zeroPatterns{map[string]op.BlockMask{}, map[string]bool{}}
		for _, t := range w {
			v, err := t.Float32()
			if err != nil {
				return found, err
			}
			z.add(t.Name, v, t.Shape)
		}
		if i == 0 {
			found = z
			continue
		}
		maps.DeleteFunc(found.twoFour, func(name string, _ bool) bool { return !z.twoFour[name] })
		for name, k := range found.kept {
			if found.kept[name] = k.Or(z.kept[name]); found.kept[name] == "" {
				delete(found.kept, name)
			}
		}
	}
	return found, nil
}
