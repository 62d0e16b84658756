package spatial

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// reshape splits the result along the axes that continue a split axis of the
// operand (sameAxis) with whole boundaries. All other axes are gathered first. The
// rank then reshapes its own part.
func (s *sharding) reshape(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	id := n.In[0]
	from := s.g.Nodes[id].Shape
	kept := graph.Distribution{Axes: make([]graph.AxisPartition, len(from))} // of the operand
	cuts := make([]graph.AxisPartition, len(n.Shape))                        // of the result
	for i := range from {
		c := s.cut(id, i)
		j, ok := sameAxis(from, n.Shape, i)
		if c.MeshAxis == "" || !ok || !s.isField[n.ID] {
			continue
		}
		starts := make([]int, len(c.Starts))
		for r, at := range c.Starts {
			ok = ok && at*n.Shape[j]%from[i] == 0
			starts[r] = at * n.Shape[j] / from[i]
		}
		if ok {
			kept.Axes[i], cuts[j] = c, graph.AxisPartition{MeshAxis: c.MeshAxis, Starts: starts}
		}
	}
	if s.isField[n.ID] {
		s.dist[n.ID] = graph.Distribution{Axes: cuts}
	}
	x := s.fetch(b, id, in[0], s.mesh.ownedBoxes(kept, from), Boxes{})
	return s.local(b, n, graph.Shard{Shape: s.owned(n.ID, s.rank).Shape()}, x)
}

// concat concatenates shards that are split alike. The axis of the concatenation is
// whole.
func (s *sharding) concat(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	axis := n.Attrs.(op.AlongAxis).Axis
	if s.isField[n.ID] {
		s.dist[n.ID].Axes[axis] = graph.AxisPartition{}
	}
	for i, id := range n.In {
		in[i] = s.fetch(b, id, in[i], s.ownedBoxes(n.ID).with(axis, s.g.Nodes[id].Shape[axis]), Boxes{})
	}
	return b.Node(n.Op, n.Attrs, in...)
}

// slice takes a range of an axis, or embeds a value in zeros along it. If the axis
// is split, the gather itself selects the range and pads with zeros, and no further
// operation is needed.
func (s *sharding) slice(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	id, a := n.In[0], n.Attrs.(op.Range)
	size := s.g.Nodes[id].Shape[a.Axis]
	whole := s.cut(n.ID, a.Axis).MeshAxis == "" && s.cut(id, a.Axis).MeshAxis == ""
	shift := a.Lo
	if n.Moves(graph.MovePad) {
		shift = -a.Lo
	}
	room := s.ownedBoxes(n.ID).change(a.Axis, func(v Interval) Interval {
		if whole {
			return Interval{0, size}
		}
		return Interval{v.Lo + shift, v.Hi + shift}
	})
	need := room.change(a.Axis, func(v Interval) Interval { return v.Intersect(Interval{0, size}) })
	x := s.fetch(b, id, in[0], need, room)
	if whole {
		return b.Node(n.Op, n.Attrs, x)
	}
	return x
}
