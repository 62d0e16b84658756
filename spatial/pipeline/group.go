package pipeline

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// group is the ranks that compute the stages of a worker together, on a mesh. All workers have the same mesh and cut fields at the
// same places, so a rank sends its shard of what crosses a cut to the rank with its coordinates, and to no other.
type group struct {
	c        *comm.Comm // of the ranks of this worker with the same samples
	boundary *spatial.Boundary
}

// joinGroup returns the group of a rank: ranks of a worker are consecutive. It is nil for a mesh of no other axis than data.
func joinGroup(c *comm.Comm, m spatial.Mesh, whole *graph.Graph) (g *group, err error) {
	fields := m.Fields()
	if len(fields) == 0 {
		return nil, nil
	}
	g = &group{}
	if g.boundary, err = spatial.NewBoundary(whole, fields); err != nil {
		return nil, err
	}
	g.c, err = along(c, m, fields)
	return g, err
}

// along is the group of the ranks of this rank's worker that differ from it on some axes of their mesh alone.
func along(c *comm.Comm, m, axes spatial.Mesh) (*comm.Comm, error) {
	var names []string
	for _, a := range axes {
		names = append(names, a.Name)
	}
	first := c.Rank() / m.Size() * m.Size()
	ranks := slices.Clone(m.Group(c.Rank()-first, names))
	for i := range ranks {
		ranks[i] += first
	}
	return c.Group(ranks)
}

// shards returns the stages with the shapes of this rank's shards in messages.
//
// Errors: exit.Usage for a value of five axes that crosses a cut and is not a field, such as filters that an earlier stage
// computes: the next stage would cut it.
func (g *group) shards(stages []*Stage) ([]*Stage, error) {
	out := make([]*Stage, len(stages))
	local := func(values []Crossing) ([]Crossing, error) {
		values = slices.Clone(values)
		for i := range values {
			v := &values[i]
			if len(v.Shape) == 5 && !g.boundary.IsField(v.ID) {
				return nil, splitError(fmt.Sprintf("a value of shape %v that crosses a cut is the same on all ranks of the mesh, and its next stage would cut it", v.Shape),
					"use stages of one rank, or divide the layers at another place")
			}
			v.Shape = g.boundary.Owned(v.ID, g.c.Rank()).Shape()
		}
		return values, nil
	}
	for k, s := range stages {
		part := *s
		var err error
		if part.Receives, err = local(s.Receives); err != nil {
			return nil, err
		}
		if part.Sends, err = local(s.Sends); err != nil {
			return nil, err
		}
		out[k] = &part
	}
	return out, nil
}

// compile compiles the part of a stage that this rank computes.
//
// Errors: those of spatial.Compile; exit.Bug for a shard of a sent value with another size than its message.
func (g *group) compile(s *Stage, o engine.Options) (*engine.Plan, error) {
	p, err := spatial.CompilePart(s.Graph, g.boundary, g.c, o)
	if err != nil {
		return nil, err
	}
	for _, v := range s.Sends {
		if x := p.Output(valueName(v.ID)); !v.Passed && len(x) != v.Shape.Size() {
			return nil, &exit.Error{Code: exit.Bug, What: fmt.Sprintf("a shard of %d elements for a message of %d", len(x), v.Shape.Size()),
				Why: "two stages cut a value at different places", Fix: "report this with mesh and network", Err: p.Close()}
		}
	}
	return p.Plan, nil
}

// InputBox is the part of an input of the whole graph that Feed fills on this rank.
func (w *Worker) InputBox(input string) spatial.Box {
	n := w.whole.Find(input)
	if w.mesh != nil {
		return w.mesh.boundary.Owned(n.ID, w.mesh.c.Rank())
	}
	all := make(spatial.Box, len(n.Shape))
	for i, size := range n.Shape {
		all[i] = spatial.Interval{Lo: 0, Hi: size}
	}
	return all
}
