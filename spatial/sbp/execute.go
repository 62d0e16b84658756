package sbp

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// exchanges returns the transfers that a rank takes part in, one after the other,
// and the group of ranks. The transfers number ranks within the group.
//
// An all-reduce is a reduce-scatter and an all-gather of the flattened summand,
// which splits evenly whatever the shape.
func (s Step) exchanges(m spatial.Mesh, shape graph.Shape, rank int) (group []int, transfers []transfer) {
	if !s.isAllReduce() {
		return allRanks(m), []transfer{conversion(m, shape, s.From, s.To)}
	}
	group = s.group(m, rank)
	line := spatial.Mesh{{Size: len(group)}}
	flat := graph.Shape{part(m, shape, s.From, rank).Size()}
	return group, []transfer{
		conversion(line, flat, Signature{P}, Signature{S(0)}),
		conversion(line, flat, Signature{S(0)}, Signature{B}),
	}
}

// allRanks returns all ranks of a mesh.
func allRanks(m spatial.Mesh) []int {
	ranks := make([]int, m.Size())
	for r := range ranks {
		ranks[r] = r
	}
	return ranks
}

// group returns, in ascending order, the ranks that differ from a rank only along
// the axes that change.
func (s Step) group(m spatial.Mesh, rank int) []int {
	var out []int
	at := coordinates(m, rank)
	for r := range m.Size() {
		same := true
		for a, i := range coordinates(m, r) {
			same = same && (i == at[a] || s.From[a] != s.To[a])
		}
		if same {
			out = append(out, r)
		}
	}
	return out
}

// Convert converts a rank's part x of a tensor along a path and returns its new
// part. All ranks of c, which are those of the mesh, call it with the same path. x
// is not modified. Summands are added in rank order, so all ranks get the same bits
// in every run.
//
// Errors: ErrSignature for a mesh or a part of another size; failures of other
// ranks.
func Convert[T comm.Number](c *comm.Comm, p Path, x []T) ([]T, error) {
	if c.Size() != p.Mesh.Size() {
		return nil, fmt.Errorf("mesh of %d ranks on a group of %d: %w", p.Mesh.Size(), c.Size(), ErrSignature)
	}
	for _, s := range p.Steps {
		if n := part(p.Mesh, p.Shape, s.From, c.Rank()).Size(); n != len(x) {
			return nil, fmt.Errorf("rank %d has %d elements of %v in %v, want %d: %w", c.Rank(), len(x), p.Shape, s.From, n, ErrSignature)
		}
		group, transfers := s.exchanges(p.Mesh, p.Shape, c.Rank())
		for _, t := range transfers {
			var err error
			if x, err = exchange(c, group, t, x); err != nil {
				return nil, fmt.Errorf("converting %v from %v to %v: %w", p.Shape, s.From, s.To, err)
			}
		}
	}
	return x, nil
}

// exchange executes a transfer within a group of ranks of c.
func exchange[T comm.Number](c *comm.Comm, group []int, t transfer, x []T) ([]T, error) {
	me := 0
	for i, r := range group {
		if r == c.Rank() {
			me = i
		}
	}
	out, in := make([][]T, c.Size()), make([][]T, c.Size())
	held, need := part(t.mesh, t.shape, t.from, me), t.need(me)
	for i, r := range group {
		for _, v := range t.movesTo(i) {
			if v.from == me {
				rows(held, v.at, func(at, n int) { out[r] = append(out[r], x[at:at+n]...) })
			}
		}
	}
	gets := t.movesTo(me)
	for _, v := range gets {
		r := group[v.from]
		in[r] = append(in[r], make([]T, v.at.Size())...)
	}
	if err := comm.AllToAll(c, out, in); err != nil {
		return nil, err
	}
	y := make([]T, need.Size())
	for _, v := range gets {
		got := &in[group[v.from]]
		rows(need, v.into, func(at, n int) {
			for i, e := range (*got)[:n] {
				if v.adds {
					e = y[at+i] + e
				}
				y[at+i] = e
			}
			*got = (*got)[n:]
		})
	}
	return y, nil
}

// rows calls f with the first index and the length of every contiguous run of a box
// within the array held.
func rows(held, box spatial.Box, f func(at, n int)) {
	if box.Size() == 0 {
		return
	}
	if len(box) == 0 {
		f(0, 1)
		return
	}
	last := len(box) - 1
	var walk func(dim, at int)
	walk = func(dim, at int) {
		lo := box[dim].Lo - held[dim].Lo
		if dim == last {
			f(at*held[dim].Len()+lo, box[dim].Len())
			return
		}
		for i := range box[dim].Len() {
			walk(dim+1, at*held[dim].Len()+lo+i)
		}
	}
	walk(0, 0)
}
