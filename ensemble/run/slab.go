package run

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// slab is the part of all fields that a rank of a team has: some of the levels, rows
// and columns. Ranks that differ only in the samples that they compute have the same.
type slab struct {
	grid  *ensemble.Grid // of the whole fields
	depth int            // levels of the whole fields
	boxes []spatial.Box  // [rank] level, row and column
	gives []bool         // [rank] whether it is the one that gives its part to others
	me    int
}

// layOut gives every rank of a team its slab of a network's fields, as the network will
// be cut for batches of n samples.
func (t *team) layOut(s Spec, k Task, g *ensemble.Grid, n int) error {
	if t == nil {
		return nil
	}
	if k.ErrorScale == nil {
		k = unfitted(k)
	}
	gr, err := s.graph(&k, g, n, 0, true)
	if err != nil {
		return err
	}
	sharded, err := spatial.Shard(gr, t.mesh, t.c.Rank())
	if err != nil {
		return err
	}
	shape := gr.Find("features").Shape
	if own := t.mesh.Owned(sharded.Inputs["features"], shape, t.c.Rank())[0]; own.Len() < n {
		t.rows = t.mesh.Along(t.c.Size()-1, "data") + 1
	}
	t.slab = &slab{grid: g, depth: shape[2], me: t.c.Rank()}
	for r := range t.c.Size() {
		t.slab.boxes = append(t.slab.boxes, t.mesh.Owned(sharded.Inputs["features"], shape, r)[2:])
		t.slab.gives = append(t.slab.gives, t.mesh.Along(r, "data") == 0)
	}
	return nil
}

// own is the slab of this rank; nil for one that has all.
func (t *team) own() *slab {
	if t == nil {
		return nil
	}
	return t.slab
}

// window is the rectangle of the grid that this rank has.
func (s *slab) window() ensemble.Window {
	if s == nil {
		return ensemble.Window{}
	}
	return s.windowOf(s.me)
}

func (s *slab) windowOf(rank int) ensemble.Window {
	b := s.boxes[rank]
	return ensemble.Window{Rows: [2]int{b[1].Lo, b[1].Hi}, Cols: [2]int{b[2].Lo, b[2].Hi}}
}

// part is the grid of this rank's points, of fields on g.
func (s *slab) part(g *ensemble.Grid) *ensemble.Grid {
	if s == nil {
		return g
	}
	return g.Part(s.window())
}

// axes are those of this rank's fields.
func (s *slab) axes(a ensemble.Axes) ensemble.Axes {
	if s != nil {
		a.Levels = a.Levels[s.boxes[s.me][0].Lo:s.boxes[s.me][0].Hi]
	}
	return a
}

// tagSlab is the tag of parts of fields on their way to the leading rank.
const tagSlab = comm.Tags - 1

// joinSlabs gives the leading rank n whole fields of which every rank has its slab; the
// others get nil. One rank alone gets its part, which is whole.
//
// Shape: part [n][level][point] of the slab, the result of the whole.
func joinSlabs[T float32 | float64](t *team, part []T, n int) ([]T, error) {
	s := t.own()
	if s == nil {
		return part, nil
	}
	if s.me > 0 {
		if !s.gives[s.me] {
			return nil, nil
		}
		return nil, t.c.Send(0, tagSlab, part).Wait()
	}
	points := s.grid.Size()
	whole := make([]T, n*s.depth*points)
	for r, b := range s.boxes {
		if !s.gives[r] {
			continue
		}
		from := part
		if r > 0 {
			from = make([]T, n*b.Size())
			if err := t.c.Recv(r, tagSlab, from).Wait(); err != nil {
				return nil, err
			}
		}
		nx := b[2].Len()
		for i := range n {
			for l := b[0].Lo; l < b[0].Hi; l++ {
				for j := b[1].Lo; j < b[1].Hi; j++ {
					copy(whole[(i*s.depth+l)*points+j*s.grid.NX+b[2].Lo:][:nx], from)
					from = from[nx:]
				}
			}
		}
	}
	return whole, nil
}

// local is the task of a rank, for its slab alone: what is known of other levels and
// points is left out.
func (k *Task) local(s *slab, rank int) *Task {
	out := *k
	if s == nil {
		return &out
	}
	levels, w := s.boxes[rank][0], s.windowOf(rank)
	out.Features.Axes.Levels = k.Features.Axes.Levels[levels.Lo:levels.Hi]
	out.Score, out.ErrorScale, out.SpreadScale, out.SpreadAffine = atLevels(k.Score, s, levels), atLevels(k.ErrorScale, s, levels), atLevels(k.SpreadScale, s, levels), atLevels(k.SpreadAffine, s, levels)
	out.Edges = atLevels(k.Edges, s, levels)
	out.Centre, out.Width = cutMaps(atLevels(k.Centre, s, levels), s, w), cutMaps(atLevels(k.Width, s, levels), s, w)
	out.reference = k.reference.within(s, rank)
	out.Features.Spreads = atLevels(k.Features.Spreads, s, levels)
	out.Features.Auxiliary = nil
	for _, a := range k.Features.Auxiliary {
		out.Features.Auxiliary = append(out.Features.Auxiliary, ensemble.Auxiliary{Name: a.Name, Values: cutMaps([][]float32{a.Values}, s, w)[0]})
	}
	out.Features.Fields = nil
	for _, f := range atLevels(k.Features.Fields, s, levels) {
		maps := cutMaps([][]float64{f.Mean, f.Scale}, s, w)
		out.Features.Fields = append(out.Features.Fields, &ensemble.Normaliser{Kind: f.Kind, Mean: maps[0], Scale: maps[1]})
	}
	return &out
}

// atLevels keeps some levels of values whose last axis are the levels.
func atLevels[T any](x []T, s *slab, levels spatial.Interval) []T {
	var out []T
	for part := range slices.Chunk(x, s.depth) {
		out = append(out, part[levels.Lo:levels.Hi]...)
	}
	return out
}

// cutMaps keeps a window of maps; numbers for the whole grid stay.
func cutMaps[T float32 | float64](maps [][]T, s *slab, w ensemble.Window) [][]T {
	out := slices.Clone(maps)
	for i, m := range maps {
		if len(m) == s.grid.Size() {
			out[i] = ensemble.Cut(m, s.grid, w)
		}
	}
	return out
}

// fitted is what the leading rank gives another one of a task.
type fitted struct {
	Whole Task // without maps
	Local Task
}

// shareTask gives every rank its local task of the one that the leading rank has
// fitted, and what of it all need: all but the maps.
func (t *team) shareTask(k *Task) (*Task, error) {
	s := t.own()
	if s == nil {
		return k, nil
	}
	if !t.leads() {
		size := make([]int64, 1)
		if err := t.c.Recv(0, tagSlab, size).Wait(); err != nil {
			return nil, err
		}
		text := make([]byte, size[0])
		if err := t.c.Recv(0, tagSlab, text).Wait(); err != nil {
			return nil, err
		}
		var f fitted
		if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&f); err != nil {
			return nil, fmt.Errorf("the fitted task: %w", err)
		}
		*k = f.Whole
		return &f.Local, nil
	}
	bare := *k
	bare.Features.Fields, bare.Centre, bare.Width = nil, nil, nil
	for r := 1; r < t.c.Size(); r++ {
		var text bytes.Buffer
		if err := gob.NewEncoder(&text).Encode(fitted{bare, *k.local(s, r)}); err != nil {
			return nil, fmt.Errorf("the fitted task: %w", err)
		}
		if err := t.c.Send(r, tagSlab, []int64{int64(text.Len())}).Wait(); err != nil {
			return nil, err
		}
		if err := t.c.Send(r, tagSlab, text.Bytes()).Wait(); err != nil {
			return nil, err
		}
	}
	return k.local(s, 0), nil
}

// cut is this rank's slab of an output of the network, of which the rank has own.
func (s *slab) cut(y []float32, own spatial.Box) []float32 {
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
