package team

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Slab is the part of all fields that a rank of a team has: some of the levels, rows
// and columns. Ranks that differ only in the samples that they compute have the same.
type Slab struct {
	Grid  *ensemble.Grid // of the whole fields
	depth int            // levels of the whole fields
	boxes []spatial.Box  // [rank] level, row and column
	gives []bool         // [rank] whether it is the one that gives its part to others
	me    int
}

// LayOut gives every rank its slab of fields on a grid, as the network that reads them is cut for
// batches of n samples.
//
// Shape: the network's input "features" is [n][channel][level][row][column].
func (t *Team) LayOut(gr *graph.Graph, grid *ensemble.Grid, n int) error {
	sharded, err := spatial.Shard(gr, t.Mesh, t.Comm.Rank())
	if err != nil {
		return err
	}
	shape := gr.Find("features").Shape
	owned := func(rank int) spatial.Box { return t.Mesh.Owned(sharded.Inputs["features"], shape, rank) }
	if owned(t.Comm.Rank())[0].Len() < n {
		t.Rows = t.Mesh.Along(t.Comm.Size()-1, "data") + 1
	}
	t.slab = &Slab{Grid: grid, depth: shape[2], me: t.Comm.Rank()}
	for r := range t.Comm.Size() {
		t.slab.boxes = append(t.slab.boxes, owned(r)[2:])
		t.slab.gives = append(t.slab.gives, t.Mesh.Along(r, "data") == 0)
	}
	return nil
}

// Own is the slab of this rank; nil for one that has all.
func (t *Team) Own() *Slab {
	if t == nil {
		return nil
	}
	return t.slab
}

// Window is the rectangle of the grid that this rank has.
func (s *Slab) Window() ensemble.Window {
	if s == nil {
		return ensemble.Window{}
	}
	return s.WindowOf(s.me)
}

func (s *Slab) WindowOf(rank int) ensemble.Window {
	b := s.boxes[rank]
	return ensemble.Window{Rows: [2]int{b[1].Lo, b[1].Hi}, Cols: [2]int{b[2].Lo, b[2].Hi}}
}

// Box are the levels, rows and columns of this rank.
func (s *Slab) Box() spatial.Box { return s.boxes[s.me] }

// Counts tells whether a rank gives its part to others, so that each part counts once.
func (s *Slab) Counts(rank int) bool { return s.gives[rank] }

// Part is the grid of this rank's points, of fields on g.
func (s *Slab) Part(g *ensemble.Grid) *ensemble.Grid {
	if s == nil {
		return g
	}
	return g.Part(s.Window())
}

// Axes are those of this rank's fields.
func (s *Slab) Axes(a ensemble.Axes) ensemble.Axes {
	if s != nil {
		a.Levels = a.Levels[s.boxes[s.me][0].Lo:s.boxes[s.me][0].Hi]
	}
	return a
}

// tag is that of messages between a rank and the leading one.
const tag = comm.Tags - 1

// Join gives the leading rank n whole fields of which every rank has its slab; the
// others get nil. One rank alone gets its part, which is whole.
//
// Shape: part [n][level][point] of the slab, the result of the whole.
func Join[T float32 | float64](t *Team, part []T, n int) ([]T, error) {
	s := t.Own()
	if s == nil {
		return part, nil
	}
	if s.me > 0 {
		if !s.gives[s.me] {
			return nil, nil
		}
		return nil, t.Comm.Send(0, tag, part).Wait()
	}
	points := s.Grid.Size()
	whole := make([]T, n*s.depth*points)
	for r, b := range s.boxes {
		if !s.gives[r] {
			continue
		}
		from := part
		if r > 0 {
			from = make([]T, n*b.Size())
			if err := t.Comm.Recv(r, tag, from).Wait(); err != nil {
				return nil, err
			}
		}
		nx := b[2].Len()
		for i := range n {
			for l := b[0].Lo; l < b[0].Hi; l++ {
				for j := b[1].Lo; j < b[1].Hi; j++ {
					copy(whole[(i*s.depth+l)*points+j*s.Grid.NX+b[2].Lo:][:nx], from)
					from = from[nx:]
				}
			}
		}
	}
	return whole, nil
}

// AtLevels keeps a rank's levels of values whose last axis are the levels.
func AtLevels[T any](x []T, s *Slab, rank int) []T {
	levels := s.boxes[rank][0]
	var out []T
	for part := range slices.Chunk(x, s.depth) {
		out = append(out, part[levels.Lo:levels.Hi]...)
	}
	return out
}

// CutMaps keeps a rank's window of maps; numbers for the whole grid stay.
func CutMaps[T float32 | float64](maps [][]T, s *Slab, rank int) [][]T {
	out := slices.Clone(maps)
	for i, m := range maps {
		if len(m) == s.Grid.Size() {
			out[i] = ensemble.Cut(m, s.Grid, s.WindowOf(rank))
		}
	}
	return out
}

// Cut is this rank's slab of an output of the network, of which the rank has own.
func (s *Slab) Cut(y []float32, own spatial.Box) []float32 {
	box := make(spatial.Box, len(own))
	for i, v := range own {
		box[i] = spatial.Interval{Lo: 0, Hi: v.Len()}
		if i >= 2 {
			mine := s.boxes[s.me][i-2]
			box[i] = spatial.Interval{Lo: mine.Lo - v.Lo, Hi: mine.Hi - v.Lo}
		}
	}
	if box.Size() == own.Size() {
		return y
	}
	part := make([]float32, box.Size())
	spatial.Take(part, y, graph.Shape(own.Shape()), box)
	return part
}
