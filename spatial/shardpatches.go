package spatial

import "github.com/ensemble-weather/ensemble/engine/graph"

// patches computes a sum over the patches of a convolution: each rank those of its own
// positions, which it reads with a halo and all channels, then the ranks sum. Ranks that
// split channels only compute the same. The second operand gives the positions; its values
// are not read.
//
// Shape: [n], replicated.
func (s *sharding) patches(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x, at := n.In[w.Operand], n.In[w.CorrelateWith]
	shape := s.g.Nodes[x].Shape
	all := s.ranges(at, shape, []int{channels}, func(axis int, own Interval) axisRange {
		return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
	})
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.parts(needOf), all.boxes(roomOf))
	if x == at && !s.hasHalo(w) { // all channels of the same points
		in[w.CorrelateWith] = in[w.Operand]
	} else {
		in[w.CorrelateWith] = s.fetchLike(b, at, in[w.CorrelateWith], at)
	}
	return s.sum(b, s.local(b, n, localPart(all.of(s.rank)), in...), s.spaceAxes(at))
}

// hasHalo reports whether a window reads other points than its own.
func (s *sharding) hasHalo(w graph.Window) bool {
	for _, a := range w.Axes {
		if a.Size != 1 || a.Stride != 1 || a.Pad != 0 {
			return true
		}
	}
	return false
}
