package spatial

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// spaceAxes returns the mesh axes that split a field along any axis but the
// channels.
func (s *sharding) spaceAxes(field int) (over []string) {
	for axis := range s.g.Nodes[field].Shape {
		if c := s.cut(field, axis); c.MeshAxis != "" && axis != channels {
			over = append(over, c.MeshAxis)
		}
	}
	return over
}

// moments computes mean and variance per channel of the rank's shard and merges
// them over the ranks. The other operands are replicated.
//
// Shape: x [N C D H W] → [2 C].
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

// valuesPerChannel returns the number of values per channel in a rank's shard of a
// field.
func (s *sharding) valuesPerChannel(field, rank int) int {
	own := s.owned(field, rank)
	return own.Size() / own[channels].Len()
}

// momentsGrad computes the gradient of normalisation moments on a shard. The
// operation divides by the number of values per channel of its operand, n_shard.
// The correct divisor is that of the whole field, so the moments' gradient is
// scaled by n_shard/n_field.
func (s *sharding) momentsGrad(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	x := s.fetchLike(b, n.In[0], in[0], n.ID)
	part := float64(s.valuesPerChannel(n.ID, s.rank)) / float64(n.Shape.Size()/n.Shape[channels])
	return b.Node(n.Op, n.Attrs, x, s.fetchAligned(b, n.In[1], in[1], n.ID), op.Scale(b, s.fetchAligned(b, n.In[2], in[2], n.ID), part))
}
