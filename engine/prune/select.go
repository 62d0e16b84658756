package prune

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// removed is how many of n weights a sparsity leaves out: ⌊s·n⌋, where a product that only
// rounding keeps below a whole number counts as that.
func removed(s float64, n int) int { return int(math.Floor(s * float64(n) * (1 + 1e-12))) }

// A key orders units: the weakest first, of equally weak ones those that come later.
type key uint64

// keyOf is the key of unit number i with a score, which is no NaN.
func keyOf(score float32, i int) key {
	bits := math.Float32bits(score + 0) // −0 is 0
	if bits>>31 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 31
	}
	return key(uint64(bits)<<32 | uint64(^uint32(i)))
}

// unit is the number that a key was made of.
func (k key) unit() int { return int(^uint32(k)) }

// contest is the units of some layers that compete for one budget. Scores lie as the
// parameters of a store do.
type contest struct {
	s      Structure
	layers []Layer
	first  []int // number of the first unit of each layer
	scores []float32
	room   []int
}

func newContest(s Structure, layers []Layer, scores []float32) *contest {
	c := &contest{s: s, layers: layers, scores: scores}
	n := 0
	for _, l := range layers {
		c.first = append(c.first, n)
		n += s.units(l)
	}
	return c
}

// elements are those of a unit, as places among the parameters, until the next call.
func (c *contest) elements(unit int) []int {
	at := sort.SearchInts(c.first, unit+1) - 1
	l := c.layers[at]
	c.room = c.s.elements(c.room[:0], l, unit-c.first[at], c.scores[l.Offset:l.Offset+l.Size()])
	for i := range c.room {
		c.room[i] += l.Offset
	}
	return c.room
}

// keys are those of all units that may go, by the mean of the scores of their weights. What
// every layer keeps is not among them: its strongest unit, and of one that reads the input
// the strongest of each input channel, or group of them. (Two of four keeps half of every
// row, which is more.)
func (c *contest) keys() []key {
	var keys []key
	for at, l := range c.layers {
		strongest := map[int]key{} // by input channel, or all as one
		group := func(first int) int {
			if !l.First {
				return 0
			}
			in := l.input(first - l.Offset)
			if c.s.Pattern == Blocks {
				in /= c.s.Block.In
			}
			return in
		}
		begin := len(keys)
		for u := range c.s.units(l) {
			e := c.elements(c.first[at] + u)
			if len(e) == 0 {
				continue
			}
			k := keyOf(mean(c.scores, e), c.first[at]+u)
			keys = append(keys, k)
			if g := group(e[0]); c.s.Pattern != TwoFour {
				strongest[g] = max(strongest[g], k)
			}
		}
		keep := map[key]bool{}
		for _, k := range strongest {
			keep[k] = true
		}
		own := slices.DeleteFunc(keys[begin:], func(k key) bool { return keep[k] })
		keys = keys[:begin+len(own)]
	}
	return keys
}

// weakest marks the weakest units in a mask, as many as fit into a budget of weights.
func (c *contest) weakest(budget int, keep []bool) {
	keys := c.keys()
	slices.Sort(keys)
	for _, k := range keys {
		e := c.elements(k.unit())
		if budget -= len(e); budget < 0 {
			return
		}
		for _, i := range e {
			keep[i] = false
		}
	}
}

// least is the number of weights that a layer keeps whatever the target.
func (s Structure) least(l Layer) int {
	switch {
	case s.Pattern == TwoFour:
		row := l.row()
		return l.Out * (row - row/4*2 - max(row%4-2, 0))
	case s.Pattern == Blocks:
		edge := func(n, block int) int { return cmp.Or(n%block, block) }
		unit := edge(l.Out, s.Block.Out) * edge(l.In, s.Block.In) * (l.Taps() / s.tapsOf(l))
		if l.First { // a unit for each group of inputs
			return edge(l.Out, s.Block.Out) * l.In * (l.Taps() / s.tapsOf(l))
		}
		return unit
	case l.First:
		return l.In
	}
	return 1
}
