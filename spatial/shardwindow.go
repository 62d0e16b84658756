package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// axisRange is what one rank computes along an axis that is cut: the operand's interval
// that it has room for, with padding, and the interval of the result that comes of it,
// of which the rank keeps its own.
type axisRange struct {
	room, need    Interval // of the operand that is read in windows
	computed, own Interval // of the result
	pad           int      // before the operand's first, for operations that pad
}

// forwardRange is the stretch of a rank that owns an interval of the result, from an axis of
// n operands.
func forwardRange(a graph.WindowAxis, own Interval, n int, padded bool) axisRange {
	t := axisRange{room: PaddedInputRange(a, own), need: InputRange(a, own, n), computed: own, own: own}
	switch {
	case a.UpFactor > 1: // ends of what the rank holds are clamped; it makes what it needs and more
		t.room = t.need
		t.computed = Interval{t.need.Lo * a.UpFactor, t.need.Hi * a.UpFactor}
	case !padded:
		t.room = t.need
	}
	return t
}

// backwardRange is the stretch of a rank that owns an interval of the gradient of the operand,
// of an axis of n, from the gradient of m results.
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
		results := func() int { // that a convolution of the rank's own makes
			t.pad = own.Lo + a.Pad - a.Stride*first
			return floor(own.Len()+2*t.pad-reach-1, a.Stride) + 1
		}
		have := results()
		for t.pad < 0 || first+have < end { // a result before those needed adds nothing
			first--
			have = results()
		}
		t.room = Interval{first, first + have}
		if t.need = t.room; !a.Periodic {
			t.need = t.room.Intersect(Interval{0, m})
		}
	default: // pooling: whole windows
		t.need = AdjointRange(a, own, m)
		t.need.Lo = min(t.need.Lo, own.Lo/a.Stride)
		t.room = t.need
		t.computed = Interval{min(own.Lo, t.need.Lo*a.Stride), max(own.Hi, (t.need.Hi-1)*a.Stride+a.Size)}
	}
	return t
}

// axisRanges are those of all axes for a rank; axes of the field id that are not cut
// are whole, and so are those of the operand of which the windows need all.
func (s *sharding) axisRanges(id, rank int, operand graph.Shape, whole []int, of func(axis int, own Interval) axisRange) []axisRange {
	out := make([]axisRange, 5)
	for axis, own := range s.owned(id, rank) {
		if s.cut(id, axis).MeshAxis == "" || slices.Contains(whole, axis) {
			all := Interval{0, operand[axis]}
			out[axis] = axisRange{room: all, need: all, computed: own, own: own, pad: -1}
			continue
		}
		out[axis] = of(axis, own)
	}
	return out
}

// boxOf is one interval of each axis.
func boxOf(t []axisRange, of func(axisRange) Interval) Box {
	b := make(Box, len(t))
	for i := range t {
		b[i] = of(t[i])
	}
	return b
}

func roomOf(t axisRange) Interval     { return t.room }
func needOf(t axisRange) Interval     { return t.need }
func computedOf(t axisRange) Interval { return t.computed }

// localPart describes the part of the result that comes of stretches.
func localPart(t []axisRange) graph.Shard {
	l := graph.Shard{Shape: boxOf(t, computedOf).Shape(), Pads: make([]int, len(t))}
	for i := range t {
		l.Pads[i] = t[i].pad
	}
	return l
}

// cropToOwned crops what was made to what the rank owns.
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

// windowed computes the part of the result from the operand's part and its halo.
func (s *sharding) windowed(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x := n.In[w.Operand]
	shape := s.g.Nodes[x].Shape
	at := func(rank int) []axisRange {
		return s.axisRanges(n.ID, rank, shape, w.FullAxes, func(axis int, own Interval) axisRange {
			return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
		})
	}
	in[w.Operand] = s.fetch(b, x, in[w.Operand], func(r int) Box { return boxOf(at(r), needOf) }, func(r int) Box { return boxOf(at(r), roomOf) })
	switch {
	case w.Unshared:
		made := func(r int) Box { return boxOf(at(r), computedOf) }
		in[1] = s.fetchPointFilters(b, n.In[1], in[1], made, made)
	case w.Padded: // a convolution: filters, one for each channel of the result
		in[1] = s.sliceChannels(b, in[1], 0, n.ID)
	}
	mine := at(s.rank)
	return cropToOwned(b, s.local(b, n, localPart(mine), in...), mine)
}

// adjoint computes the part of a gradient from the parts of the result's gradient that
// it needs. Other operands are fields like the result's gradient, or like its operand.
func (s *sharding) adjoint(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	dy := s.g.Nodes[n.In[w.Operand]].Shape
	at := func(rank int) []axisRange {
		return s.axisRanges(n.ID, rank, dy, w.FullAxes, func(axis int, own Interval) axisRange {
			return backwardRange(w.Axes[axis], own, n.Shape[axis], dy[axis], w.Padded)
		})
	}
	for r := range s.mesh.Size() {
		for _, t := range at(r) {
			if t.room.Len() == 0 {
				return b.Fail(n.Op.Name, fmt.Errorf("rank %d of the mesh %v owns a part of %v that no window reads", r, s.mesh, n.Shape))
			}
		}
	}
	for i, id := range n.In {
		switch shape := s.g.Nodes[id].Shape; {
		case w.Unshared && i == 1:
			in[i] = s.fetchPointFilters(b, id, in[i], func(r int) Box { return boxOf(at(r), needOf) }, func(r int) Box { return boxOf(at(r), roomOf) })
		case !s.isField[id]: // filters, each with a slice for each channel of the result
			in[i] = s.sliceChannels(b, in[i], 1, n.ID)
		case shape.Equal(dy):
			in[i] = s.fetch(b, id, in[i], func(r int) Box { return boxOf(at(r), needOf) }, func(r int) Box { return boxOf(at(r), roomOf) })
		default:
			in[i] = s.fetch(b, id, in[i], func(r int) Box { return boxOf(at(r), computedOf) }, nil)
		}
	}
	mine := at(s.rank)
	return cropToOwned(b, s.local(b, n, localPart(mine), in...), mine)
}

// filterGrad computes what a rank's part of one operand, a field, adds to a sum of its
// products with windows of the other, and adds up over ranks.
func (s *sharding) filterGrad(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x, dy := n.In[w.Operand], n.In[w.CorrelateWith]
	shape := s.g.Nodes[x].Shape
	in[w.CorrelateWith] = s.fetchLike(b, dy, in[w.CorrelateWith], dy)
	at := func(rank int) []axisRange {
		return s.axisRanges(dy, rank, shape, []int{channels}, func(axis int, own Interval) axisRange {
			return forwardRange(w.Axes[axis], own, shape[axis], w.Padded)
		})
	}
	in[w.Operand] = s.fetch(b, x, in[w.Operand], func(r int) Box { return boxOf(at(r), needOf) }, func(r int) Box { return boxOf(at(r), roomOf) })
	l := localPart(at(s.rank))
	l.Shape = n.Shape.Clone()
	l.Shape[0] = s.owned(dy, s.rank)[channels].Len()
	return s.sumChannels(b, s.local(b, n, l, in...), 0, dy, s.spaceAxes(dy))
}
