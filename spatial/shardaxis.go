package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// axisAttention computes the shard of an attention along an axis, or of one of its
// gradients. A rank reads the windows that contain its own points, as a whole. If
// leads attend to each other (axis 0), samples are split only between complete
// sets. Channels are not split.
//
// Shape: in[0] [N 3C D H W] holds query, key and value; the result has C channels.
func (s *sharding) axisAttention(b *graph.Builder, n *graph.Node, in []graph.Value) graph.Value {
	a := n.Attrs.(op.AxisAttention)
	field, x := n.ID, s.g.Nodes[n.In[0]].Shape
	gradient := len(n.In) == 3
	if !s.isField[n.ID] { // gradient of the position weights: a sum over all points of dy
		if field = n.In[2]; !s.isField[field] {
			return s.replicated(b, n, in)
		}
	}
	dist := graph.Distribution{Axes: slices.Clone(s.dist[field].Axes)}
	if dist.Replicated() {
		dist.Axes = make([]graph.AxisPartition, len(x))
	}
	dist.Axes[channels] = graph.AxisPartition{}
	if a.Axis == 0 && slices.ContainsFunc(dist.Axes[0].Starts, func(at int) bool { return at%a.Set != 0 }) {
		dist.Axes[0] = graph.AxisPartition{}
	}
	if s.isField[n.ID] {
		s.dist[n.ID] = dist
	}
	shape := s.g.Nodes[field].Shape
	own := s.mesh.ownedBoxes(dist, shape)
	// cover has the boxes that ranks read of a field with width channels.
	cover := func(width int) Boxes {
		boxes := own.with(channels, width)
		if a.Axis > 0 {
			boxes = boxes.change(a.Axis, func(v Interval) Interval { return windowSpan(a, v, x[a.Axis]) })
		}
		return boxes
	}
	in[0] = s.fetch(b, n.In[0], in[0], cover(x[channels]), Boxes{})
	third := cover(x[channels] / 3)
	mine := third.Of(s.rank)
	local := a
	if a.Axis > 0 {
		local.Starts = windowStarts(a, mine[a.Axis], x[a.Axis])
	}
	if !s.isField[n.ID] {
		in[2] = s.fetch(b, n.In[2], in[2], own, third)
		var over []string
		for _, c := range dist.Axes {
			if c.MeshAxis != "" {
				over = append(over, c.MeshAxis)
			}
		}
		return s.sum(b, b.Node(n.Op, local, in...), over)
	}
	if gradient {
		in[2] = s.fetch(b, n.In[2], in[2], third, Boxes{})
	}
	made := b.Node(n.Op, local, in...)
	if a.Axis == 0 || !made.Valid() {
		return made
	}
	keep := make(Box, len(shape))
	for i, size := range made.Shape() {
		keep[i] = Interval{0, size}
	}
	mineOwn := own.Of(s.rank)[a.Axis]
	keep[a.Axis] = Interval{mineOwn.Lo - mine[a.Axis].Lo, mineOwn.Hi - mine[a.Axis].Lo}
	if keep[a.Axis].Len() == made.Dim(a.Axis) {
		return made
	}
	return b.Node(crop, cropAttrs{keep, made.Shape()}, made)
}

// windowSpan returns the interval that covers all windows with a point in own, of
// an axis of n. It may start before 0 or end after n if a window wraps around a
// periodic axis. If the windows cover the whole axis, the result is [0, n), because
// no index may be read twice.
func windowSpan(a op.AxisAttention, own Interval, n int) Interval {
	var cover Interval
	for _, w := range windowIntervals(a, n) {
		if w.Intersect(own).Len() > 0 {
			if cover.Len() == 0 {
				cover = w
			}
			cover.Hi = w.Hi
		}
	}
	if cover.Len() >= n { // the windows wrap around and overlap: read the whole axis
		return Interval{0, n}
	}
	return cover
}

// windowIntervals returns the windows of the axis in ascending order. A last window
// that wraps around is listed twice: also shifted by −n, before the others.
func windowIntervals(a op.AxisAttention, n int) []Interval {
	var out []Interval
	windows := a.Windows(n)
	if last := windows[len(windows)-1]; last[0]+last[1] > n {
		out = append(out, Interval{last[0] - n, last[0] + last[1] - n})
	}
	for _, w := range windows {
		out = append(out, Interval{w[0], w[0] + w[1]})
	}
	return out
}

// windowStarts returns the first indices of the windows inside cover, relative to
// it.
func windowStarts(a op.AxisAttention, cover Interval, n int) []int {
	if cover.Len() == n {
		return a.Starts
	}
	var starts []int
	for _, w := range windowIntervals(a, n) {
		if w.Lo >= cover.Lo && w.Hi <= cover.Hi {
			starts = append(starts, w.Lo-cover.Lo)
		}
	}
	return starts
}
