package spatial

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Mesh is a grid of ranks. Ranks count along the last axis first.
type Mesh []MeshAxis

// MeshAxis is one axis of a mesh, by the name that cuts use: "data", "lat", "lon",
// "level", "channel".
type MeshAxis struct {
	Name string
	Size int
}

// Size is the number of ranks.
func (m Mesh) Size() int {
	n := 1
	for _, a := range m {
		n *= a.Size
	}
	return n
}

// Along is where a rank stands on the axis of that name; 0 if the mesh has none.
func (m Mesh) Along(rank int, name string) int {
	for i := len(m) - 1; i >= 0; i-- {
		if m[i].Name == name {
			return rank % m[i].Size
		}
		rank /= m[i].Size
	}
	return 0
}

// check refuses distributions that the mesh does not have, and those that cut two
// axes of a value along one of the mesh.
func (m Mesh) check(d graph.Dist) error {
	used := map[string]bool{}
	for i, c := range d.Cuts {
		if c.Mesh == "" {
			continue
		}
		size := 0
		for _, a := range m {
			if a.Name == c.Mesh {
				size = a.Size
			}
		}
		if size != len(c.Starts) || used[c.Mesh] {
			return fmt.Errorf("axis %d is cut into %d along %q of the mesh %v", i, len(c.Starts), c.Mesh, m)
		}
		used[c.Mesh] = true
	}
	return nil
}

// Box is a part of a value: an interval of each axis.
type Box []Interval

// Size is the number of elements.
func (b Box) Size() int {
	n := 1
	for _, v := range b {
		n *= v.Len()
	}
	return n
}

// Intersect is what both boxes hold.
func (b Box) Intersect(c Box) Box {
	out := make(Box, len(b))
	for i := range b {
		out[i] = b[i].Intersect(c[i])
	}
	return out
}

// Owned is the part of a value of shape s that a rank holds.
func (m Mesh) Owned(d graph.Dist, s graph.Shape, rank int) Box {
	b := make(Box, len(s))
	for i, n := range s {
		b[i] = Interval{0, n}
		if len(d.Cuts) > 0 {
			b[i] = Part(d.Cuts[i], m.Along(rank, d.Cuts[i].Mesh), n)
		}
	}
	return b
}

// Move is a part of a value that one rank gives another, or keeps.
type Move struct {
	From, To int
	// At is where the part lies in the value, Into where the receiver wants it: the same,
	// or further by the size of a periodic axis.
	At, Into Box
}

// Shuffle lists what ranks give each other to bring a value of shape s from one
// distribution into another, as Gather does.
//
// Errors: distributions that the mesh does not have.
func Shuffle(m Mesh, s graph.Shape, from, to graph.Dist) ([]Move, error) {
	if err := m.check(to); err != nil {
		return nil, err
	}
	return Gather(m, s, from, func(rank int) Box { return m.Owned(to, s, rank) })
}

// Gather lists what ranks give each other so that each gets the box of a value of shape
// s that it needs, by receiver and then along the axes of the value; boxes may run
// over the ends of periodic axes. What several ranks hold comes from the receiver
// itself, or from the rank that stands as it does on the axes of the mesh along which
// the value is not cut.
//
// Errors: a distribution that the mesh does not have.
func Gather(m Mesh, s graph.Shape, d graph.Dist, need func(rank int) Box) ([]Move, error) {
	if err := m.check(d); err != nil {
		return nil, err
	}
	cut := func(axis int) graph.Cut {
		if len(d.Cuts) == 0 {
			return graph.Cut{}
		}
		return d.Cuts[axis]
	}
	var moves []Move
	for r := range m.Size() {
		want := need(r)
		pieces := make([][]Piece, len(s))
		for i, n := range s {
			pieces[i] = Sources(cut(i), want[i], n)
		}
		each(pieces, func(p []Piece) {
			v := Move{To: r, At: make(Box, len(s)), Into: make(Box, len(s))}
			along := map[string]int{}
			for i := range p {
				v.At[i], v.Into[i] = p[i].At, p[i].To
				along[cut(i).Mesh] = p[i].Rank
			}
			for _, a := range m {
				at, ok := along[a.Name]
				if !ok {
					at = m.Along(r, a.Name)
				}
				v.From = v.From*a.Size + at
			}
			moves = append(moves, v)
		})
	}
	return moves, nil
}

// each calls f with every choice of one piece of each list, the last list fastest.
func each(lists [][]Piece, f func([]Piece)) {
	chosen := make([]Piece, len(lists))
	var choose func(i int)
	choose = func(i int) {
		if i == len(lists) {
			f(chosen)
			return
		}
		for _, p := range lists[i] {
			chosen[i] = p
			choose(i + 1)
		}
	}
	choose(0)
}
