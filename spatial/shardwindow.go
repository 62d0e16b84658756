package spatial

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// axisRange is the computation of one rank along one split axis. The rank reads the
// operand interval room, computes the result interval computed and keeps own:
//
//	need ⊆ room      need holds data, the rest of room is zero
//	own ⊆ computed   computed is the output of the kernel for the input room
//
// need has exactly the indices that own reads. room exceeds its hull and computed
// exceeds own where the kernel can only compute more: an upsampling computes all
// outputs of an input, a pooling gradient all inputs of a window.
type axisRange struct {
	need     []Interval // indices of the operand that own reads: disjoint, ascending
	room     Interval   // of the operand
	computed Interval   // of the result
	own      Interval   // of the result
	// windows has the inputs in the windows of need, for gradients that compare
	// inputs with the result of their window.
	windows []Interval
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
	t := axisRange{room: PaddedInputRange(a, own), need: InputsRead(a, own, n), computed: own, own: own}
	switch {
	case a.UpFactor > 1: // interpolation clamps at the ends of the buffer, so compute all outputs of the inputs and crop
		t.room = hull(t.need)
		t.computed = Interval{t.room.Lo * a.UpFactor, t.room.Hi * a.UpFactor}
	case !padded:
		t.room = hull(t.need)
	}
	return t
}

// backwardRange returns the intervals of a rank that owns the interval own of the
// operand's gradient. n is the size of the operand's axis, m that of the result's,
// whose gradient is read.
//
// An upsampling's gradient reads the outputs within one input of own, half of those
// of the cells beside own: need = [u·own.Lo − ⌊u/2⌋, u·own.Hi + ⌊u/2⌋) with factor u.
//
// For a convolution with padding p, stride s and reach r = (k−1)·d, input i
// receives gradients from the outputs ⌈(i+p−r)/s⌉ to ⌊(i+p)/s⌋. The rank runs the
// adjoint of a convolution over its own inputs alone. Its padding is then
//
//	pad = own.Lo + p − s·first
//
// where first is the first output of room. pad must not be negative, and the
// convolution must have outputs up to the last one read; first is lowered until
// both hold.
func backwardRange(a graph.WindowAxis, own Interval, n, m int, padded bool) axisRange {
	t := axisRange{need: OutputsReading(a, own, m), computed: own, own: own}
	switch {
	case a.UpFactor > 1:
		t.computed = Interval{own.Lo - 1, own.Hi + 1}
		if !a.Periodic {
			t.computed = t.computed.Intersect(Interval{0, n})
		}
		t.room = Interval{t.computed.Lo * a.UpFactor, t.computed.Hi * a.UpFactor}
	case padded:
		t.room, t.pad = adjointRoom(a, own)
	default: // pooling: whole windows
		t.room = poolingRoom(a, own, hull(t.need), m)
		t.computed = Interval{min(own.Lo, t.room.Lo*a.Stride), max(own.Hi, (t.room.Hi-1)*a.Stride+a.Size)}
		t.windows = InputsRead(a, hull(t.need), n)
	}
	return t
}

// adjointRoom returns the outputs of a convolution over the inputs own, and the padding of that convolution, such that
// it has all outputs that read these inputs.
func adjointRoom(a graph.WindowAxis, own Interval) (room Interval, pad int) {
	reach := (a.Size - 1) * a.Dilation
	first, end := ceil(own.Lo+a.Pad-reach, a.Stride), floor(own.Hi-1+a.Pad, a.Stride)+1
	for ; ; first-- { // an output before the first needed one contributes zero
		pad = own.Lo + a.Pad - a.Stride*first
		have := floor(own.Len()+2*pad-reach-1, a.Stride) + 1
		if pad >= 0 && have > 0 && first+have >= end {
			return Interval{first, first + have}, pad
		}
	}
}

// poolingRoom returns the windows of a pooling, of m, that cover the inputs own and the windows need. Inputs between
// windows or after the last one belong to the window before them.
func poolingRoom(a graph.WindowAxis, own, need Interval, m int) Interval {
	first := min(own.Lo/a.Stride, m-1)
	if need.Len() == 0 {
		return Interval{first, first + 1}
	}
	return Interval{min(first, need.Lo), need.Hi}
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
		r := axisRanges{along: cut.MeshAxis}
		for c := range max(1, len(cut.Starts)) {
			own, all := OwnedInterval(cut, c, n), Interval{0, operand[axis]}
			t := axisRange{room: all, need: []Interval{all}, computed: own, own: own, windows: []Interval{own}, pad: -1}
			if !slices.Contains(whole, axis) {
				reads := of(axis, own)
				if cut.MeshAxis != "" {
					t = reads
				} else {
					t.need, t.windows = wrapped(reads.need, operand[axis]), reads.windows
				}
			}
			r.at = append(r.at, t)
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

// parts returns the boxes that consist of several intervals of each range.
func (t rankRanges) parts(of func(axisRange) []Interval) Boxes {
	b := t.boxes(func(r axisRange) Interval { return hull(of(r)) })
	for i, r := range t.axes {
		if !slices.ContainsFunc(r.at, func(a axisRange) bool { return len(of(a)) > 1 }) {
			continue
		}
		along := rankIntervals{along: slices.IndexFunc(t.mesh, func(a MeshAxis) bool { return a.Name == r.along })}
		for _, a := range r.at {
			along.at, along.holes = append(along.at, hull(of(a))), append(along.holes, holesIn(hull(of(a)), of(a)))
		}
		b.axes[i] = along
	}
	return b
}

func roomOf(t axisRange) Interval      { return t.room }
func computedOf(t axisRange) Interval  { return t.computed }
func needOf(t axisRange) []Interval    { return t.need }
func windowsOf(t axisRange) []Interval { return t.windows }

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
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.parts(needOf), all.boxes(roomOf))
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
	for i, id := range n.In {
		switch shape := s.g.Nodes[id].Shape; {
		case w.Unshared && i == 1:
			in[i] = s.fetchPointFilters(b, id, in[i], all.parts(needOf), all.boxes(roomOf))
		case !s.isField[id]: // filters: axis 1 has the channels of this gradient
			in[i] = s.sliceChannels(b, in[i], 1, n.ID)
		case shape.Equal(dy):
			in[i] = s.fetch(b, id, in[i], all.parts(needOf), all.boxes(roomOf))
		default:
			in[i] = s.fetch(b, id, in[i], all.parts(windowsOf), all.boxes(computedOf))
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
	in[w.Operand] = s.fetch(b, x, in[w.Operand], all.parts(needOf), all.boxes(roomOf))
	l := localPart(all.of(s.rank))
	l.Shape = n.Shape.Clone()
	l.Shape[0] = s.owned(dy, s.rank)[channels].Len()
	return s.sumChannels(b, s.local(b, n, l, in...), 0, dy, s.spaceAxes(dy))
}
