package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Sets are rows of the batch that belong to one sample. Ranks have whole samples of what comes
// of an operation within sets, or, where the batch is cut within one, all of it.

// propagateSets carries cuts of samples between fields that have several rows for each.
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

// sets computes an operation within the sets of a rank's samples. Along the axes of space a
// result has the points of its operands, or one in which they are summed, to which each rank
// adds those that it has; along others it is whole.
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
	if slices.Contains(over, cuts[0].MeshAxis) { // ranks that add up have the same samples
		cuts[0] = graph.AxisPartition{}
	}
	s.dist[n.ID] = graph.Distribution{Axes: cuts}
	for i, id := range n.In {
		shape := s.g.Nodes[id].Shape
		in[i] = s.fetch(b, id, in[i], func(r int) Box {
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
		}, nil)
	}
	return s.sum(b, s.local(b, n, graph.Shard{Shape: s.owned(n.ID, s.rank).Shape()}, in...), over)
}
