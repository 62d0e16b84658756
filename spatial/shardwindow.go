package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// axisRange is the computation of one rank along one split axis. The rank reads the
// operand interval room, computes the result interval computed and keeps own:
//
//	need ⊆ room      need holds data, the rest of room is zero padding
//	own ⊆ computed   computed is the output of the kernel for the input room
//
// computed exceeds own where the kernel can only compute more: an upsampling
// computes all outputs of an input, a pooling gradient all inputs of a window.
type axisRange struct {
	room, need    Interval // interval of the operand that is read in windows
	computed, own Interval // interval of the result
	// padding before the first operand, for operations that pad; −1 for an axis
	// that is not split
	pad int
}

// forwardRange returns the intervals of a rank that owns the result interval own. n
// is the size of the operand's axis.
//
// A padded convolution reads room with its padding as data and runs unpadded.
// Windows of other operations read no padding. An upsampling clamps at the ends of
// what the rank holds.
//
// Example: a filter of size 3 with padding 1 and own = [0, 4) has room = [−1, 5)
// and need = [0, 5) on a non-periodic axis; index −1 is zero.
//
// Source: Dryden et al. 2019, arXiv:1903.06681, section III.
func forwardRange(a graph.WindowAxis, own Interval, n int, padded bool) axisRange {
	t := axisRange{room: PaddedInputRange(a, own), need: InputRange(a, own, n), computed: own, own: own}
	switch {
	case a.UpFactor > 1: // interpolation clamps at the ends of the buffer, so compute all outputs of the inputs and crop
		t.room = t.need
		t.computed = Interval{t.need.Lo * a.UpFactor, t.need.Hi * a.UpFactor}
	case !padded:
		t.room = t.need
	}
	return t
}

// backwardRange returns the intervals of a rank that owns the interval own of the
// operand's gradient. n is the size of the operand's axis, m that of the result's,
// whose gradient is read.
//
// For a convolution with padding p, stride s and reach r = (k−1)·d, input i
// receives gradients from the outputs ⌈(i+p−r)/s⌉ to ⌊(i+p)/s⌋. The rank runs the
// adjoint of a convolution over its own inputs alone. Its padding is then
//
//	pad = own.Lo + p − s·first
//
// where first is the first output read. pad must not be negative, and the
// convolution must have outputs up to the last one read; first is lowered until
// both hold.
func backwardRange(a graph.WindowAxis, own Interval, n, m int, padded bool) axisRange {
	t := axisRange{computed: own, own: own}
	switch {
	case a.UpFactor > 1:
		t.computed = Interval{own.Lo - 1, own.Hi + 1}
		if !a.Periodic {
			t.computed = t.computed.Intersect(Interval{0, n})
		}
		t.room = Interval{t.computed.Lo * a.UpFactor, t.computed.Hi * a.UpFactor}
		t.need = t.room
	case padded:
		reach := (a.Size - 1) * a.Dilation
		first, end := ceil(own.Lo+a.Pad-reach, a.Stride), floor(own.Hi-1+a.Pad, a.Stride)+1
		results := func() int { // number of outputs of a convolution over the own inputs
			t.pad = own.Lo + a.Pad - a.Stride*first
			return floor(own.Len()+2*t.pad-reach-1, a.Stride) + 1
		}
		have := results()
		for t.pad < 0 || first+have < end { // an output before the first needed one contributes zero
			first--
			have = results()
		}
		t.room = Interval{first, first + have}
		if t.need = t.room; !a.Periodic {
			t.need = t.room.Intersect(Interval{0, m})
		}
	default: // pooling: disjoint windows, which are computed as a whole
		t.need = AdjointRange(a, own, m)
		t.need.Lo = min(t.need.Lo, own.Lo/a.Stride)
		t.room = t.need
		t.computed = Interval{min(own.Lo, t.need.Lo*a.Stride), max(own.Hi, (t.need.Hi-1)*a.Stride+a.Size)}
	}
	return t
}

// rankRanges holds the computation of every rank: for each axis the range by the coordinate along one mesh axis, as
// in Boxes.
type rankRanges struct {
	mesh Mesh
	axes []axisRanges
}

// axisRanges holds the ranges along one axis of a value.
type axisRanges struct {
	along string // mesh axis; "": one range for all ranks
	at    []axisRange
}

// ranges returns the computation of all ranks. Axes of field id that
// are not split, and the axes in whole, are not restricted; of computes the
// ranges of the others.
func (s *sharding) ranges(id int, operand graph.Shape, whole []int, of func(axis int, own Interval) axisRange) rankRanges {
	out := rankRanges{mesh: s.mesh, axes: make([]axisRanges, 5)}
	for axis, n := range s.g.Nodes[id].Shape {
		cut := s.cut(id, axis)
		restricted := cut.MeshAxis != "" && !slices.Contains(whole, axis)
		r := axisRanges{along: cut.MeshAxis}
		for c := range max(1, len(cut.Starts)) {
			own := OwnedInterval(cut, c, n)
			if restricted {
				r.at = append(r.at, of(axis, own))
			} else {
				all := Interval{0, operand[axis]}
				r.at = append(r.at, axisRange{room: all, need: all, computed: own, own: own, pad: -1})
			}
		}
		out.axes[axis] = r
	}
	return out
}

// of returns the ranges of a rank along all axes.
func (t rankRanges) of(rank int) []axisRange {
	out := make([]axisRange, len(t.axes))
	for i, r := range t.axes {
		out[i] = r.at[0]
		if r.along != "" {
			out[i] = r.at[t.mesh.Coordinate(rank, r.along)]
		}
	}
	return out
}

// boxes returns the boxes of one interval of each range.
func (t rankRanges) boxes(of func(axisRange) Interval) Boxes {
	b := Boxes{mesh: t.mesh, axes: make([]rankIntervals, len(t.axes))}
	for i, r := range t.axes {
		b.axes[i] = rankIntervalsOf(t.mesh, r.along, func(c int) Interval { return of(r.at[c]) })
	}
	return b
}

func roomOf(t axisRange) Interval     { return t.room }
func needOf(t axisRange) Interval     { return t.need }
func computedOf(t axisRange) Interval { return t.computed }

// localPart returns the sizes and paddings with which an operation computes the
// part of its result that the intervals describe.
func localPart(t []axisRange) graph.Shard {
	l := graph.Shard{Shape: make(graph.Shape, len(t)), Pads: make([]int, len(t))}
	for i := range t {
		l.Shape[i], l.Pads[i] = t[i].computed.Len(), t[i].pad
	}
	return l
}

// cropToOwned crops the computed part of the result to the part that the rank owns.
func cropToOwned(b *graph.Builder, v graph.Value, t []axisRange) graph.Value {
	own := make(Box, len(t))
	more := false
	for i := range t {
		own[i] = Interval{t[i].own.Lo - t[i].computed.Lo, t[i].own.Hi - t[i].computed.Lo}
		more = more || t[i].own != t[i].computed
	}
	if !more {
		return v
	}
	return b.Node(crop, cropAttrs{own, v.Shape()}, v)
}

// windowed computes a shard of a convolution, pooling or upsampling from the
// operand's shard and its halo.
func (s *sharding) windowed(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x := n.In[w.Operand]
	shape := s.g.Nodes[x].Shape
	all := s.ranges(n.ID, shape, w.FullAxes, func(axis int, own Interval) axisRange {
		return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
	})
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.boxes(needOf), all.boxes(roomOf))
	switch {
	case w.Unshared:
		made := all.boxes(computedOf)
		in[1] = s.fetchPointFilters(b, n.In[1], in[1], made, made)
	case w.Padded: // a convolution: one filter per channel of the result
		in[1] = s.sliceChannels(b, in[1], 0, n.ID)
	}
	mine := all.of(s.rank)
	return cropToOwned(b, s.local(b, n, localPart(mine), in...), mine)
}

// adjoint computes a shard of the gradient with respect to the operand from the
// required part of the result's gradient. Further operands have the shape of the
// result's gradient or of the operand.
func (s *sharding) adjoint(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	dy := s.g.Nodes[n.In[w.Operand]].Shape
	all := s.ranges(n.ID, dy, w.FullAxes, func(axis int, own Interval) axisRange {
		return backwardRange(w.Axes[axis], own, n.Shape[axis], dy[axis], w.Padded)
	})
	for axis, r := range all.axes {
		if part := slices.IndexFunc(r.at, func(t axisRange) bool { return t.room.Len() == 0 }); part >= 0 {
			return b.Fail(n.Op.Name, fmt.Errorf("part %d of axis %d of %v on the mesh %v is in no window", part, axis, n.Shape, s.mesh))
		}
	}
	for i, id := range n.In {
		switch shape := s.g.Nodes[id].Shape; {
		case w.Unshared && i == 1:
			in[i] = s.fetchPointFilters(b, id, in[i], all.boxes(needOf), all.boxes(roomOf))
		case !s.isField[id]: // filters: axis 1 has the channels of this gradient
			in[i] = s.sliceChannels(b, in[i], 1, n.ID)
		case shape.Equal(dy):
			in[i] = s.fetch(b, id, in[i], all.boxes(needOf), all.boxes(roomOf))
		default:
			in[i] = s.fetch(b, id, in[i], all.boxes(computedOf), Boxes{})
		}
	}
	mine := all.of(s.rank)
	return cropToOwned(b, s.local(b, n, localPart(mine), in...), mine)
}

// filterGrad computes the gradient of the filters: the sum over all points of the
// products of dy with the windows of x. Each rank sums over its shard of dy, then
// the ranks sum.
func (s *sharding) filterGrad(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x, dy := n.In[w.Operand], n.In[w.CorrelateWith]
	shape := s.g.Nodes[x].Shape
	in[w.CorrelateWith] = s.fetchLike(b, dy, in[w.CorrelateWith], dy)
	all := s.ranges(dy, shape, []int{channels}, func(axis int, own Interval) axisRange {
		return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
	})
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.boxes(needOf), all.boxes(roomOf))
	l := localPart(all.of(s.rank))
	l.Shape = n.Shape.Clone()
	l.Shape[0] = s.owned(dy, s.rank)[channels].Len()
	return s.sumChannels(b, s.local(b, n, l, in...), 0, dy, s.spaceAxes(dy))
}
