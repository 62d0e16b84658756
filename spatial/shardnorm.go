package spatial

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// moments joins those of the parts of a field. The other operands are on all ranks.
func (s *sharding) moments(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	x := n.In[0]
	var over []string
	for axis := range s.g.Nodes[x].Shape {
		if c := s.cut(x, axis); c.Mesh != "" {
			over = append(over, c.Mesh)
		}
	}
	part := b.Node(n.Op, n.Attrs, in...)
	if len(over) == 0 {
		return part
	}
	a := counted{along: along{s.mesh.sorted(over)}}
	for _, r := range s.mesh.group(s.rank, over) {
		a.Counts = append(a.Counts, s.own(x, r).Size()/s.g.Nodes[x].Shape[1])
	}
	return b.Node(joinMoments, a, part)
}

// momentsGrad divides by the number of values that the whole field has, where the
// operation divides by those of a part.
func (s *sharding) momentsGrad(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	x := s.like(b, n.In[0], in[0], n.ID)
	part := float64(s.own(n.ID, s.rank).Size()) / float64(n.Shape.Size())
	return b.Node(n.Op, n.Attrs, x, in[1], op.Scale(b, in[2], part))
}
