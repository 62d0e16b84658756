package prune

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/ensemble-weather/ensemble/engine/op"
)

// removedCount is the number of weights, of n, that a sparsity s removes: ⌊s·n⌋. The factor 1 + 10⁻¹²
// corrects products that rounding puts just below an integer.
func removedCount(s float64, n int) int { return int(math.Floor(s * float64(n) * (1 + 1e-12))) }

// key is the sort key of a unit: its score in the upper 32 bits, and the inverted index in the
// lower ones. Keys ascend with the score; at equal scores the unit with the higher index comes
// first.
type key uint64

// keyOf is the key of unit i. The score must not be NaN. The bits of a float32 are mapped so that
// unsigned comparison orders all signs.
func keyOf(score float32, i int) key {
	bits := math.Float32bits(score + 0) // −0 + 0 is +0: both get one key
	if bits>>31 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return key(uint64(bits)<<32 | uint64(^uint32(i)))
}

// unit is the index of the unit.
func (k key) unit() int { return int(^uint32(k)) }

// ranking ranks the units of some layers that share one budget of weights.
//
// Shape: scores [parameters].
type ranking struct {
	s         Structure
	layers    []Layer
	firstUnit []int // index of the first unit of each layer
	scores    []float32
	scratch   []int // memory for the result of elements
}

// newRanking numbers the units of the layers.
func newRanking(s Structure, layers []Layer, scores []float32) *ranking {
	c := &ranking{s: s, layers: layers, scores: scores}
	n := 0
	for _, l := range layers {
		c.firstUnit = append(c.firstUnit, n)
		n += s.unitCount(l)
	}
	return c
}

// unitElements are the weights of a unit, as indices of the parameters. They are valid until the next
// call.
func (c *ranking) unitElements(unit int) []int {
	at := sort.SearchInts(c.firstUnit, unit+1) - 1
	l := c.layers[at]
	c.scratch = c.s.unitElements(c.scratch[:0], l, unit-c.firstUnit[at], c.scores[l.Offset:l.Offset+l.Size()])
	for i := range c.scratch {
		c.scratch[i] += l.Offset
	}
	return c.scratch
}

// keepAlways is the key of a unit that must stay. It is greater than all others.
const keepAlways = key(math.MaxUint64)

// keys returns the keys of all units, layer by layer, by the mean score of their weights.
//
// Units that must stay have the key keepAlways: the unit with the highest score of each layer and,
// in a layer that reads the input, the unit with the highest score of each input channel or block
// of channels. The pattern 2:4 needs none, as it keeps half of every row.
//
// Source: Han et al. 2015, arXiv:1506.02626 (magnitudes); a layer that keeps one unit
// cannot be cut off (layer collapse: Tanaka et al. 2020, arXiv:2006.05467).
func (c *ranking) keys() []key {
	var keys []key
	for at, l := range c.layers {
		groups, width := 1, 1 // of input channels
		if l.ReadsInput {
			if c.s.Pattern == Blocks {
				width = c.s.Block.In
			}
			groups = ceilDiv(l.In, width)
		}
		strongest := make([]int, groups) // indices in keys plus 1; 0 for none
		keys = slices.Grow(keys, c.s.unitCount(l))
		for u := range c.s.unitCount(l) {
			e := c.unitElements(c.firstUnit[at] + u)
			if len(e) == 0 {
				continue
			}
			keys = append(keys, keyOf(mean(c.scores, e), c.firstUnit[at]+u))
			g := 0
			if groups > 1 {
				g = l.inputChannel(e[0]-l.Offset) / width
			}
			if best := strongest[g]; best == 0 || keys[len(keys)-1] > keys[best-1] {
				strongest[g] = len(keys)
			}
		}
		for _, i := range strongest {
			if i > 0 && c.s.Pattern != TwoFour {
				keys[i-1] = keepAlways
			}
		}
	}
	return keys
}

// dropWeakest masks the weakest units, as many as fit into a budget of weights.
//
// Cost: O(units). Keys are counted by their upper 16 bits, and only those in the bin where the
// budget ends are sorted.
func (c *ranking) dropWeakest(budget int, keep []bool) {
	const shift = 48
	keys := c.keys()
	sizes := make([]int, 1<<(64-shift))
	for _, k := range keys {
		if k != keepAlways {
			sizes[k>>shift] += len(c.unitElements(k.unit()))
		}
	}
	end := 0
	for end < len(sizes) && sizes[end] <= budget {
		budget -= sizes[end]
		end++
	}
	drop := func(k key) {
		for _, i := range c.unitElements(k.unit()) {
			keep[i] = false
		}
	}
	var last []key
	for _, k := range keys {
		switch at := int(k >> shift); {
		case k == keepAlways:
		case at < end:
			drop(k)
		case at == end:
			last = append(last, k)
		}
	}
	slices.Sort(last)
	for _, k := range last {
		if budget -= len(c.unitElements(k.unit())); budget < 0 {
			return
		}
		drop(k)
	}
}

// minKept is the number of weights that a layer keeps at any target.
func (s Structure) minKept(l Layer) int {
	switch {
	case s.Pattern == TwoFour:
		return l.Out * l.Taps() * (l.In - l.In/op.Quad*2 - max(l.In%op.Quad-2, 0))
	case s.Pattern == Blocks:
		edge := func(n, block int) int { return cmp.Or(n%block, block) }
		unit := edge(l.Out, s.Block.Out) * edge(l.In, s.Block.In) * l.Taps()
		if l.ReadsInput { // one unit for each block of input channels
			return edge(l.Out, s.Block.Out) * l.In * l.Taps()
		}
		return unit
	case l.ReadsInput:
		return l.In
	}
	return 1
}
