package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// A locally connected layer (a convolution with unshared filters) has one filter
// per point of the result. A rank holds the filters of the points that it computes,
// and their gradients. These gradients are summed over samples only. Channels are
// not split.

// wholeChannels removes the split of a field's channels.
func (s *sharding) wholeChannels(id int) {
	if c := s.dist[id].Axes; len(c) > 0 {
		s.dist[id].Axes = slices.Clone(c)
		s.dist[id].Axes[channels] = graph.AxisPartition{}
	}
}

// fetchPointFilters fetches the filters of the points in a box. need and room are
// boxes of the result; they apply to the axes of space of the filters.
//
// Shape: filters [F C·k³ D H W].
func (s *sharding) fetchPointFilters(b *graph.Builder, id int, v graph.Value, need, room Boxes) graph.Value {
	shape := s.g.Nodes[id].Shape
	filters := func(points Boxes) Boxes { return points.with(0, shape[0]).with(1, shape[1]) }
	return s.fetch(b, id, v, filters(need), filters(room))
}

// pointFilterGrad computes the gradient of the filters of the rank's points. It is
// summed over the ranks that split the samples.
func (s *sharding) pointFilterGrad(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x, dy := n.In[w.Operand], n.In[w.CorrelateWith]
	shape, dyShape := s.g.Nodes[x].Shape, s.g.Nodes[dy].Shape
	over := s.cut(dy, 0).MeshAxis
	s.isField[n.ID], s.dist[n.ID] = true, graph.Distribution{Axes: make([]graph.AxisPartition, len(n.Shape))}
	for axis := 2; axis < len(n.Shape); axis++ {
		s.dist[n.ID].Axes[axis] = s.cut(dy, axis)
	}
	in[w.CorrelateWith] = s.fetch(b, dy, in[w.CorrelateWith], s.ownedBoxes(dy).with(channels, dyShape[channels]), Boxes{})
	all := s.ranges(dy, shape, []int{channels}, func(axis int, own Interval) axisRange {
		return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
	})
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.parts(needOf), all.boxes(roomOf))
	part := s.local(b, n, localPart(all.of(s.rank)), in...)
	if over == "" {
		return part
	}
	return s.sum(b, part, []string{over})
}

// wholeGradient returns the whole gradient of parameters by point: the rank's shard, among zeros, summed over the ranks with other
// shards and, at the same time, over those that split the samples. Adding zeros is exact. Unlike a gather the sum joins the
// buckets of other gradients and hides behind the backward pass; without a sharded optimiser it sends twice the bytes.
func (s *sharding) wholeGradient(b *graph.Builder, id int, v graph.Value) graph.Value {
	if s.dist[id].Replicated() {
		return v
	}
	shape, own := s.g.Nodes[id].Shape, s.owned(id, s.rank)
	part := partialSum{part: v}
	if p, ok := s.partial[v.ID()]; ok {
		part = p
	}
	over := slices.Clone(part.over)
	for axis, n := range shape {
		if c := s.cut(id, axis); c.MeshAxis != "" {
			part.part = op.PadZeros(b, part.part, axis, own[axis].Lo, n-own[axis].Hi)
			over = append(over, c.MeshAxis)
		}
	}
	if len(over) == len(part.over) {
		return v
	}
	s.dist[id] = graph.Distribution{}
	return s.sum(b, part.part, over)
}
