package spatial

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// stretch is what one rank computes along an axis that is cut: the operand's interval
// that it has room for, with padding, and the interval of the result that comes of it,
// of which the rank keeps its own.
type stretch struct {
	room, need Interval // of the operand that is read in windows
	made, own  Interval // of the result
	pad        int      // before the operand's first, for operations that pad
}

// forward is the stretch of a rank that owns an interval of the result, from an axis of
// n operands.
func forward(a graph.WindowAxis, own Interval, n int, padded bool) stretch {
	t := stretch{room: Reach(a, own), need: Needs(a, own, n), made: own, own: own}
	switch {
	case a.Up > 1: // ends of what the rank holds are clamped; it makes what it needs and more
		t.room = t.need
		t.made = Interval{t.need.Lo * a.Up, t.need.Hi * a.Up}
	case !padded:
		t.room = t.need
	}
	return t
}

// backward is the stretch of a rank that owns an interval of the gradient of the operand,
// of an axis of n, from the gradient of m results.
func backward(a graph.WindowAxis, own Interval, n, m int, padded bool) stretch {
	t := stretch{made: own, own: own}
	switch {
	case a.Up > 1:
		t.made = Interval{own.Lo - 1, own.Hi + 1}
		if !a.Periodic {
			t.made = t.made.Intersect(Interval{0, n})
		}
		t.room = Interval{t.made.Lo * a.Up, t.made.Hi * a.Up}
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
		t.need = NeedsAdjoint(a, own, m)
		t.need.Lo = min(t.need.Lo, own.Lo/a.Stride)
		t.room = t.need
		t.made = Interval{min(own.Lo, t.need.Lo*a.Stride), max(own.Hi, (t.need.Hi-1)*a.Stride+a.Size)}
	}
	return t
}

// stretches are those of all axes for a rank; axes of the field id that are not cut
// are whole, and so are those of the operand of which the windows need all.
func (s *sharding) stretches(id, rank int, operand graph.Shape, whole []int, of func(axis int, own Interval) stretch) []stretch {
	out := make([]stretch, 5)
	for axis, own := range s.own(id, rank) {
		if s.cut(id, axis).Mesh == "" || slices.Contains(whole, axis) {
			all := Interval{0, operand[axis]}
			out[axis] = stretch{room: all, need: all, made: own, own: own, pad: -1}
			continue
		}
		out[axis] = of(axis, own)
	}
	return out
}

// box is one interval of each axis.
func box(t []stretch, of func(stretch) Interval) Box {
	b := make(Box, len(t))
	for i := range t {
		b[i] = of(t[i])
	}
	return b
}

func roomOf(t stretch) Interval { return t.room }
func needOf(t stretch) Interval { return t.need }
func madeOf(t stretch) Interval { return t.made }

// partOf describes the part of the result that comes of stretches.
func partOf(t []stretch) graph.Local {
	l := graph.Local{To: box(t, madeOf).Shape(), Pads: make([]int, len(t))}
	for i := range t {
		l.Pads[i] = t[i].pad
	}
	return l
}

// keepOwn crops what was made to what the rank owns.
func keepOwn(b *graph.Builder, v graph.Value, t []stretch) graph.Value {
	own := make(Box, len(t))
	more := false
	for i := range t {
		own[i] = Interval{t[i].own.Lo - t[i].made.Lo, t[i].own.Hi - t[i].made.Lo}
		more = more || t[i].own != t[i].made
	}
	if !more {
		return v
	}
	return b.Node(crop, cropped{own, v.Shape()}, v)
}

// windowed computes the part of the result from the operand's part and its halo.
func (s *sharding) windowed(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x := n.In[w.Operand]
	shape := s.g.Nodes[x].Shape
	at := func(rank int) []stretch {
		return s.stretches(n.ID, rank, shape, w.Whole, func(axis int, own Interval) stretch {
			return forward(w.Axes[axis], own, shape[axis], w.Padded)
		})
	}
	in[w.Operand] = s.fetch(b, x, in[w.Operand], func(r int) Box { return box(at(r), needOf) }, func(r int) Box { return box(at(r), roomOf) })
	switch {
	case w.Unshared:
		made := func(r int) Box { return box(at(r), madeOf) }
		in[1] = s.ofPoints(b, n.In[1], in[1], made, made)
	case w.Padded: // a convolution: filters, one for each channel of the result
		in[1] = s.ofChannels(b, in[1], 0, n.ID)
	}
	mine := at(s.rank)
	return keepOwn(b, s.local(b, n, partOf(mine), in...), mine)
}

// adjoint computes the part of a gradient from the parts of the result's gradient that
// it needs. Other operands are fields like the result's gradient, or like its operand.
func (s *sharding) adjoint(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	dy := s.g.Nodes[n.In[w.Operand]].Shape
	at := func(rank int) []stretch {
		return s.stretches(n.ID, rank, dy, w.Whole, func(axis int, own Interval) stretch {
			return backward(w.Axes[axis], own, n.Shape[axis], dy[axis], w.Padded)
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
			in[i] = s.ofPoints(b, id, in[i], func(r int) Box { return box(at(r), needOf) }, func(r int) Box { return box(at(r), roomOf) })
		case !s.field[id]: // filters, each with a slice for each channel of the result
			in[i] = s.ofChannels(b, in[i], 1, n.ID)
		case shape.Equal(dy):
			in[i] = s.fetch(b, id, in[i], func(r int) Box { return box(at(r), needOf) }, func(r int) Box { return box(at(r), roomOf) })
		default:
			in[i] = s.fetch(b, id, in[i], func(r int) Box { return box(at(r), madeOf) }, nil)
		}
	}
	mine := at(s.rank)
	return keepOwn(b, s.local(b, n, partOf(mine), in...), mine)
}

// against computes what a rank's part of one operand, a field, adds to a sum of its
// products with windows of the other, and adds up over ranks.
func (s *sharding) against(b *graph.Builder, n *graph.Node, in []graph.Value, w graph.Window) graph.Value {
	x, dy := n.In[w.Operand], n.In[w.Against]
	shape := s.g.Nodes[x].Shape
	in[w.Against] = s.like(b, dy, in[w.Against], dy)
	at := func(rank int) []stretch {
		return s.stretches(dy, rank, shape, []int{channels}, func(axis int, own Interval) stretch {
			return forward(w.Axes[axis], own, shape[axis], w.Padded)
		})
	}
	in[w.Operand] = s.fetch(b, x, in[w.Operand], func(r int) Box { return box(at(r), needOf) }, func(r int) Box { return box(at(r), roomOf) })
	l := partOf(at(s.rank))
	l.To = n.Shape.Clone()
	l.To[0] = s.own(dy, s.rank)[channels].Len()
	return s.overChannels(b, s.local(b, n, l, in...), 0, dy, s.across(dy))
}
