package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Sets are rows of the batch that belong to one sample. Ranks have whole samples of what comes
// of an operation within sets, or, where the batch is cut within one, all of it.

// followSets carries cuts of samples between fields that have several rows for each.
func (s *sharding) followSets(n *graph.Node) {
	for _, id := range n.In {
		from := s.g.Nodes[id].Shape
		if len(from) != 5 || len(n.Shape) != 5 {
			continue
		}
		s.scaled(axisSize{0, from[0]}, axisSize{0, n.Shape[0]})
		s.scaled(axisSize{0, n.Shape[0]}, axisSize{0, from[0]})
	}
}

// sets computes an operation within the sets of a rank's samples. Along the axes of space a
// result has the points of its operands, or one in which they are summed, to which each rank
// adds those that it has; along others it is whole.
func (s *sharding) sets(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	if !s.field[n.ID] {
		return s.everywhere(b, n, in)
	}
	lead := n.In[w.Operand]
	cuts := slices.Clone(s.dist[n.ID].Cuts)
	rows := n.Shape[0] / w.Samples
	if slices.ContainsFunc(cuts[0].Starts, func(at int) bool { return at%rows != 0 }) {
		cuts[0] = graph.Cut{}
	}
	if slices.Contains(w.Whole, channels) {
		cuts[channels] = graph.Cut{}
	}
	summed := make([]bool, len(cuts))
	for axis := 2; axis < len(cuts); axis++ {
		if slices.Contains(w.Whole, axis) && !w.Sums {
			cuts[axis] = graph.Cut{}
		}
		summed[axis] = w.Sums && n.Shape[axis] == 1 && slices.Contains(w.Whole, axis)
		for _, id := range n.In {
			if size := s.g.Nodes[id].Shape[axis]; !summed[axis] && size != 1 && size != n.Shape[axis] {
				cuts[axis] = graph.Cut{}
			}
		}
	}
	var over []string
	for axis, sum := range summed {
		if c := s.cut(lead, axis); sum && c.Mesh != "" {
			over = append(over, c.Mesh)
		}
	}
	if slices.Contains(over, cuts[0].Mesh) { // ranks that add up have the same samples
		cuts[0] = graph.Cut{}
	}
	s.dist[n.ID] = graph.Dist{Cuts: cuts}
	for i, id := range n.In {
		shape := s.g.Nodes[id].Shape
		in[i] = s.fetch(b, id, in[i], func(r int) Box {
			own := s.own(n.ID, r)
			box := make(Box, len(shape))
			box[0] = Interval{own[0].Lo / rows * (shape[0] / w.Samples), own[0].Hi / rows * (shape[0] / w.Samples)}
			for axis := 1; axis < len(shape); axis++ {
				switch {
				case summed[axis]:
					box[axis] = s.own(lead, r)[axis]
				case cuts[axis].Mesh != "" && shape[axis] == n.Shape[axis]:
					box[axis] = own[axis]
				default:
					box[axis] = Interval{0, shape[axis]}
				}
			}
			return box
		}, nil)
	}
	return s.sum(b, s.local(b, n, graph.Local{To: s.own(n.ID, s.rank).Shape()}, in...), over)
}
