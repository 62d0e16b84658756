package spatial

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// spaceAxes names the axes of the mesh along which a field is cut, but for its channels.
func (s *sharding) spaceAxes(field int) (over []string) {
	for axis := range s.g.Nodes[field].Shape {
		if c := s.cut(field, axis); c.MeshAxis != "" && axis != channels {
			over = append(over, c.MeshAxis)
		}
	}
	return over
}

// moments joins those of the parts of a field. The other operands are on all ranks.
func (s *sharding) moments(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	x := n.In[0]
	for i := range in[1:] {
		in[1+i] = s.fetchAligned(b, n.In[1+i], in[1+i], x)
	}
	part := b.Node(n.Op, n.Attrs, in...)
	if over := s.spaceAxes(x); len(over) > 0 {
		a := joinMomentsAttrs{meshAxes: meshAxes{s.mesh.sorted(over)}}
		for _, r := range s.mesh.Group(s.rank, over) {
			a.Counts = append(a.Counts, s.valuesPerChannel(x, r))
		}
		part = b.Node(joinMoments, a, part)
	}
	return s.sumChannels(b, part, 1, x, nil)
}

// valuesPerChannel is how many values of each of its channels of a field a rank has.
func (s *sharding) valuesPerChannel(field, rank int) int {
	own := s.owned(field, rank)
	return own.Size() / own[channels].Len()
}

// momentsGrad divides by the number of values that the whole field has, where the
// operation divides by those of a part.
func (s *sharding) momentsGrad(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	x := s.fetchLike(b, n.In[0], in[0], n.ID)
	part := float64(s.valuesPerChannel(n.ID, s.rank)) / float64(n.Shape.Size()/n.Shape[channels])
	return b.Node(n.Op, n.Attrs, x, s.fetchAligned(b, n.In[1], in[1], n.ID), op.Scale(b, s.fetchAligned(b, n.In[2], in[2], n.ID), part))
}
