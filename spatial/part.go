package spatial

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Boundary is how the fields of a graph are cut where they pass from one part of it to another, if the parts are compiled apart
// (CompilePart), such as the stages of a pipeline. All parts cut fields of a size at the same places, so each rank of one part
// hands its shard to the rank with the same coordinates of the other.
type Boundary struct{ whole *sharding }

// NewBoundary returns the boundary of the parts of a graph without gradients on a mesh.
//
// Errors: those of Shard.
func NewBoundary(whole *graph.Graph, m Mesh) (*Boundary, error) {
	s := newSharding(whole, m, 0)
	if err := s.cutFields(); err != nil {
		return nil, err
	}
	if _, err := s.part(); err != nil { // which finds the fields
		return nil, err
	}
	return &Boundary{s}, nil
}

// Owned returns the box of a node of the graph that a rank has where the value passes from part to part: that of an input of its
// shape if it is a field, else all of it.
func (b *Boundary) Owned(id, rank int) Box {
	shape, d := b.whole.g.Nodes[id].Shape, graph.Distribution{}
	if b.IsField(id) {
		d = b.whole.boundaryDist(shape)
	}
	return b.whole.mesh.Owned(d, shape, rank)
}

// IsField reports whether a node of the graph is a field, which the mesh may cut. Other values have the same bits on all ranks.
func (b *Boundary) IsField(id int) bool { return b.whole.isField[id] }

// CompilePart is Compile for a part of a graph. Inputs and outputs are cut as the boundary states: inputs of five axes must be
// fields.
//
// Errors: those of Compile.
func CompilePart(g *graph.Graph, b *Boundary, c *comm.Comm, o engine.Options) (*Plan, error) {
	return compile(g, c, b.whole.mesh, o, func(p *Plan) {
		p.shard = func(g *graph.Graph, m Mesh, rank int) (*Sharded, error) {
			s := newSharding(g, m, rank)
			s.cuts = b.whole.cuts
			for _, out := range g.Outputs {
				s.leaves[out.ID] = true
			}
			return s.part()
		}
	})
}
