package team

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Shard is the shard of all fields that a rank of a team holds: some of the levels,
// rows and columns. Ranks that differ only in their samples have the same shard.
type Shard struct {
	Grid    *ensemble.Grid // of the whole fields
	depth   int            // levels of the whole fields
	boxes   []spatial.Box  // [rank] level, row and column
	primary []bool         // [rank] first of the ranks with the same shard
	me      int
}

// AssignShards assigns to every rank its shard of fields on a grid, as the input of
// the network gr is split for batches of n samples.
//
// All ranks compute the boxes of all ranks, so no message is needed.
//
// Shape: the network's input "features" is [n][channel][level][row][column].
// Errors: those of spatial.Shard, such as a mesh that does not divide the network.
func (t *Team) AssignShards(gr *graph.Graph, grid *ensemble.Grid, n int) error {
	sharded, err := spatial.Shard(gr, t.Mesh, t.Comm.Rank())
	if err != nil {
		return err
	}
	shape := gr.Find("features").Shape
	owned := func(rank int) spatial.Box { return t.Mesh.Owned(sharded.Inputs["features"], shape, rank) }
	if owned(t.Comm.Rank())[0].Len() < n {
		t.DataGroups = t.Mesh.Coordinate(t.Comm.Size()-1, spatial.DataAxis) + 1
	}
	t.shard = &Shard{Grid: grid, depth: shape[2], me: t.Comm.Rank()}
	for r := range t.Comm.Size() {
		t.shard.boxes = append(t.shard.boxes, owned(r)[2:])
		t.shard.primary = append(t.shard.primary, t.Mesh.Coordinate(r, spatial.DataAxis) == 0)
	}
	return nil
}

// Shard returns the shard of this rank; nil if the rank has whole fields.
func (t *Team) Shard() *Shard {
	if t == nil {
		return nil
	}
	return t.shard
}

// Window returns the rectangle of the grid that this rank holds. A nil shard has the zero
// Window, the whole grid.
func (s *Shard) Window() ensemble.Window {
	if s == nil {
		return ensemble.Window{}
	}
	return s.WindowOf(s.me)
}

// WindowOf returns the rectangle of the grid that a rank holds.
func (s *Shard) WindowOf(rank int) ensemble.Window {
	b := s.boxes[rank]
	return ensemble.Window{Rows: [2]int{b[1].Lo, b[1].Hi}, Cols: [2]int{b[2].Lo, b[2].Hi}}
}

// Box returns the levels, rows and columns of this rank.
func (s *Shard) Box() spatial.Box { return s.boxes[s.me] }

// IsPrimary reports whether a rank is the first with its shard. Sums over ranks
// include only these.
func (s *Shard) IsPrimary(rank int) bool { return s.primary[rank] }

// LocalGrid returns the grid of this rank's points, for fields on g.
func (s *Shard) LocalGrid(g *ensemble.Grid) *ensemble.Grid {
	if s == nil {
		return g
	}
	return g.Subgrid(s.Window())
}

// LocalAxes returns the axes of this rank's fields.
func (s *Shard) LocalAxes(a ensemble.Axes) ensemble.Axes {
	if s != nil {
		a.Levels = a.Levels[s.boxes[s.me][0].Lo:s.boxes[s.me][0].Hi]
	}
	return a
}

// fieldTag is the tag of messages between two ranks of this package.
const fieldTag = comm.Tags - 1

// GatherFields gathers n whole fields on rank 0 from the shards of all ranks; the
// other ranks get nil. A single rank gets part itself.
//
// Shape: part [n][level][point] of the shard; result [n][level][point] of the whole field.
// Memory: the whole fields on rank 0, and one shard at a time.
// Errors: lost ranks.
func GatherFields[T float32 | float64](t *Team, part []T, n int) ([]T, error) {
	s := t.Shard()
	if s == nil {
		return part, nil
	}
	return gatherLevels(t, part, n, 0, spatial.Interval{Lo: 0, Hi: s.depth})
}

// GatherLevels gathers n whole fields of each level on the ranks that need it, which to lists by level, equally on all
// ranks. A rank that holds the whole field gets it without a message.
//
// Shape: part [n][level][point] of the shard; result [level][n][point] of the whole fields, nil for the levels of others.
// Memory: the fields that a rank needs, and one shard at a time.
// Errors: lost ranks.
func GatherLevels[T float32 | float64](t *Team, part []T, n int, to [][]int) ([][]T, error) {
	out := make([][]T, len(to))
	s := t.Shard()
	for l, ranks := range to {
		for _, root := range ranks {
			if s == nil { // every rank has whole fields
				if t.Size() == 1 || root == t.Comm.Rank() {
					out[l] = levelsOf(part, n, len(to), spatial.Interval{Lo: l, Hi: l + 1})
				}
				continue
			}
			whole, err := gatherLevels(t, part, n, root, spatial.Interval{Lo: l, Hi: l + 1})
			if err != nil {
				return nil, err
			}
			if root == s.me {
				out[l] = whole
			}
		}
	}
	return out, nil
}

// gatherLevels is GatherFields of some levels on any rank.
func gatherLevels[T float32 | float64](t *Team, part []T, n, root int, levels spatial.Interval) ([]T, error) {
	s := t.Shard()
	own := s.levelsIn(s.me, levels)
	if s.me != root {
		if !s.primary[s.me] || own.Len() == 0 || s.hasBoxOf(root, s.me) {
			return nil, nil
		}
		return nil, t.Comm.Send(root, fieldTag, levelsOf(part, n, s.boxes[s.me][0].Len(), own)).Wait()
	}
	points := s.Grid.Size()
	whole := make([]T, n*levels.Len()*points)
	for r, b := range s.boxes {
		in := s.levelsIn(r, levels)
		if !s.primary[r] || in.Len() == 0 {
			continue
		}
		var from []T
		if s.hasBoxOf(root, r) {
			from = levelsOf(part, n, b[0].Len(), in)
		} else {
			from = make([]T, n*in.Len()*b[1].Len()*b[2].Len())
			if err := t.Comm.Recv(r, fieldTag, from).Wait(); err != nil {
				return nil, err
			}
		}
		nx, first := b[2].Len(), b[0].Lo+in.Lo-levels.Lo
		for i := range n {
			for l := range in.Len() {
				for j := b[1].Lo; j < b[1].Hi; j++ {
					copy(whole[(i*levels.Len()+first+l)*points+j*s.Grid.NX+b[2].Lo:][:nx], from)
					from = from[nx:]
				}
			}
		}
	}
	return whole, nil
}

// levelsIn returns which levels of a rank's shard, counted from its first one, are among levels of the whole field.
func (s *Shard) levelsIn(rank int, levels spatial.Interval) spatial.Interval {
	b := s.boxes[rank][0]
	in := b.Intersect(levels)
	return spatial.Interval{Lo: in.Lo - b.Lo, Hi: in.Hi - b.Lo}
}

// hasBoxOf reports whether two ranks have the same shard.
func (s *Shard) hasBoxOf(a, b int) bool { return slices.Equal(s.boxes[a], s.boxes[b]) }

// levelsOf selects levels from n fields with depth levels; all of them: x itself.
//
// Shape: x [n][level][point].
func levelsOf[T any](x []T, n, depth int, levels spatial.Interval) []T {
	if levels.Len() == depth || n == 0 {
		return x
	}
	points := len(x) / (n * depth)
	out := make([]T, 0, n*levels.Len()*points)
	for i := range n {
		out = append(out, x[(i*depth+levels.Lo)*points:(i*depth+levels.Hi)*points]...)
	}
	return out
}

// SelectLevels selects a rank's levels from values whose last axis is the level.
func SelectLevels[T any](x []T, s *Shard, rank int) []T {
	levels := s.boxes[rank][0]
	var out []T
	for part := range slices.Chunk(x, s.depth) {
		out = append(out, part[levels.Lo:levels.Hi]...)
	}
	return out
}

// CropMaps crops maps to a rank's window. Entries that are not maps, such as global
// numbers, are unchanged.
func CropMaps[T float32 | float64](maps [][]T, s *Shard, rank int) [][]T {
	out := slices.Clone(maps)
	for i, m := range maps {
		if len(m) == s.Grid.Size() {
			out[i] = ensemble.CropField(m, s.Grid, s.WindowOf(rank))
		}
	}
	return out
}

// Crop crops a network output, of which the rank holds the box own, to the rank's shard.
// own may be larger, since the last layer of a network can have a halo. Without a
// difference y itself is returned.
func (s *Shard) Crop(y []float32, own spatial.Box) []float32 {
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
	spatial.ExtractBox(part, y, graph.Shape(own.Shape()), box)
	return part
}
