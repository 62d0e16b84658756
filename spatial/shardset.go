package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// A set is a group of rows of the batch that belong to one sample: members of an
// ensemble, or leads of a trajectory. The result of an operation within sets is
// split between samples. If the batch is split within a set, every rank computes
// all samples.

// propagateSets propagates splits of the batch axis between fields with different
// numbers of rows per sample, in both directions.
func (s *sharding) propagateSets(n *graph.Node) {
	for _, id := range n.In {
		from := s.g.Nodes[id].Shape
		if len(from) != 5 || len(n.Shape) != 5 {
			continue
		}
		s.propagateScaled(axisSize{0, from[0]}, axisSize{0, n.Shape[0]})
		s.propagateScaled(axisSize{0, n.Shape[0]}, axisSize{0, from[0]})
	}
}

// sets computes an operation within the sets of the rank's samples. Along an axis
// of space the result has the points of the operands, or a single point into which
// they are summed; then each rank adds its points and the ranks sum. Other reduced
// axes are gathered whole.
func (s *sharding) sets(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	if !s.isField[n.ID] {
		return s.replicated(b, n, in)
	}
	lead := n.In[w.Operand]
	cuts := slices.Clone(s.dist[n.ID].Axes)
	rows := n.Shape[0] / w.Samples
	if slices.ContainsFunc(cuts[0].Starts, func(at int) bool { return at%rows != 0 }) {
		cuts[0] = graph.AxisPartition{}
	}
	if slices.Contains(w.FullAxes, channels) {
		cuts[channels] = graph.AxisPartition{}
	}
	summed := make([]bool, len(cuts))
	for axis := 2; axis < len(cuts); axis++ {
		if slices.Contains(w.FullAxes, axis) && !w.Additive {
			cuts[axis] = graph.AxisPartition{}
		}
		summed[axis] = w.Additive && n.Shape[axis] == 1 && slices.Contains(w.FullAxes, axis)
		for _, id := range n.In {
			if size := s.g.Nodes[id].Shape[axis]; !summed[axis] && size != 1 && size != n.Shape[axis] {
				cuts[axis] = graph.AxisPartition{}
			}
		}
	}
	var over []string
	for axis, sum := range summed {
		if c := s.cut(lead, axis); sum && c.MeshAxis != "" {
			over = append(over, c.MeshAxis)
		}
	}
	if slices.Contains(over, cuts[0].MeshAxis) { // ranks that sum must have the same samples
		cuts[0] = graph.AxisPartition{}
	}
	s.dist[n.ID] = graph.Distribution{Axes: cuts}
	for i, id := range n.In {
		shape := s.g.Nodes[id].Shape
		in[i] = s.fetch(b, id, in[i], BoxesOf(s.mesh, func(r int) Box {
			own := s.owned(n.ID, r)
			box := make(Box, len(shape))
			box[0] = Interval{own[0].Lo / rows * (shape[0] / w.Samples), own[0].Hi / rows * (shape[0] / w.Samples)}
			for axis := 1; axis < len(shape); axis++ {
				switch {
				case summed[axis]:
					box[axis] = s.owned(lead, r)[axis]
				case cuts[axis].MeshAxis != "" && shape[axis] == n.Shape[axis]:
					box[axis] = own[axis]
				default:
					box[axis] = Interval{0, shape[axis]}
				}
			}
			return box
		}), Boxes{})
	}
	return s.sum(b, s.local(b, n, graph.Shard{Shape: s.owned(n.ID, s.rank).Shape()}, in...), over)
}
