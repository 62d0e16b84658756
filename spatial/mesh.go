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

// Move is a part of a value that one rank sends to another.
type Move struct {
	From, To int
	Box      Box
}

// Shuffle lists what ranks send each other to bring a value from one distribution into
// another, by receiver and then by sender. Where several ranks hold a part, a
// receiver takes its own, or that of the rank that stands as it does on the axes of
// the mesh along which the value is not cut.
//
// Errors: distributions that the mesh does not have.
func Shuffle(m Mesh, s graph.Shape, from, to graph.Dist) ([]Move, error) {
	for _, d := range []graph.Dist{from, to} {
		if err := m.check(d); err != nil {
			return nil, err
		}
	}
	cut := map[string]bool{}
	for _, c := range from.Cuts {
		cut[c.Mesh] = true
	}
	var moves []Move
	for r := range m.Size() {
		want := m.Owned(to, s, r)
		for o := range m.Size() {
			if o == r || !m.alike(r, o, cut) {
				continue
			}
			if b := want.Intersect(m.Owned(from, s, o)); b.Size() > 0 {
				moves = append(moves, Move{o, r, b})
			}
		}
	}
	return moves, nil
}

// alike tells whether two ranks stand alike on all axes but those that are cut.
func (m Mesh) alike(a, b int, cut map[string]bool) bool {
	for _, x := range m {
		if !cut[x.Name] && m.Along(a, x.Name) != m.Along(b, x.Name) {
			return false
		}
	}
	return true
}
