package sbp

import (
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/spatial"
)

// move is a box of a tensor that one rank sends to another, or keeps.
type move struct {
	from, to int
	at, into spatial.Box // in the tensor, and in the coordinates of the receiver
	adds     bool        // added to the elements received before
}

// transfer is a change of a tensor's distribution in one exchange of messages.
type transfer struct {
	mesh     spatial.Mesh
	shape    graph.Shape
	from, to Signature
	// need is the box that a rank requires. It may extend beyond the ends of
	// periodic dimensions. Beyond other ends no rank sends anything.
	need     func(rank int) spatial.Box
	periodic func(dim int) bool
}

// conversion returns the transfer from one signature to another.
func conversion(m spatial.Mesh, shape graph.Shape, from, to Signature) transfer {
	return transfer{
		mesh: m, shape: shape, from: from, to: to,
		need:     func(rank int) spatial.Box { return part(m, shape, to, rank) },
		periodic: func(int) bool { return false },
	}
}

// sends reports whether rank s sends elements to rank r. Replicas come from the
// rank with the receiver's coordinate, summands from all ranks. A tensor that
// becomes partial stays where it is; of replicas the first becomes the summand, the
// others zero.
func (t transfer) sends(s, r []int) bool {
	for a := range t.mesh {
		same := s[a] == r[a]
		switch from, to := t.from[a], t.to[a]; {
		case from == B && to == P && r[a] != 0:
			return false
		case (from == B || to == P) && !same:
			return false
		}
	}
	return true
}

// adds reports whether rank s holds a further summand of elements that an earlier
// rank sends.
func (t transfer) adds(s []int) bool {
	for a := range t.mesh {
		if t.from[a] == P && t.to[a] != P && s[a] != 0 {
			return true
		}
	}
	return false
}

// movesTo returns the boxes that a rank receives, by sender.
func (t transfer) movesTo(rank int) []move {
	var moves []move
	targets := wrap(t.need(rank), t.shape, t.periodic)
	r := coordinates(t.mesh, rank)
	for giver := range t.mesh.Size() {
		s := coordinates(t.mesh, giver)
		if !t.sends(s, r) {
			continue
		}
		held := part(t.mesh, t.shape, t.from, giver)
		for _, w := range targets {
			at := held.Intersect(w.at)
			if at.Size() > 0 {
				moves = append(moves, move{giver, rank, at, shiftInto(at, w), t.adds(s)})
			}
		}
	}
	return moves
}

// target is a box of a tensor and its position in the coordinates of the receiver.
type target struct{ at, into spatial.Box }

// wrap splits a box that extends beyond the ends of periodic dimensions into boxes
// within the tensor.
func wrap(box spatial.Box, shape graph.Shape, periodic func(dim int) bool) []target {
	out := []target{{}}
	for dim, v := range box {
		n := shape[dim]
		first, last := 0, 0 // number of periods
		if periodic(dim) && v.Len() > 0 {
			for ; v.Lo < first*n; first-- {
			}
			for ; v.Hi > (last+1)*n; last++ {
			}
		}
		var longer []target
		for _, w := range out {
			for turn := first; turn <= last; turn++ {
				into := v.Intersect(spatial.Interval{Lo: turn * n, Hi: (turn + 1) * n})
				at := spatial.Interval{Lo: into.Lo - turn*n, Hi: into.Hi - turn*n}
				longer = append(longer, target{appended(w.at, at), appended(w.into, into)})
			}
		}
		out = longer
	}
	return out
}

// appended returns a copy of a box with one more interval.
func appended(b spatial.Box, v spatial.Interval) spatial.Box {
	return append(b[:len(b):len(b)], v)
}

// shiftInto maps a box within w.at to the coordinates of the receiver.
func shiftInto(at spatial.Box, w target) spatial.Box {
	out := make(spatial.Box, len(at))
	for i, v := range at {
		d := w.into[i].Lo - w.at[i].Lo
		out[i] = spatial.Interval{Lo: v.Lo + d, Hi: v.Hi + d}
	}
	return out
}

// cost returns the cost of the transfer for elements of unit bytes.
func (t transfer) cost(unit int) Cost {
	n := t.mesh.Size()
	sent, gives, gets := make([]int64, n), make([]int, n), make([]int, n)
	for r := range n {
		last := -1
		for _, v := range t.movesTo(r) {
			if v.from == r {
				continue
			}
			sent[v.from] += int64(unit) * int64(v.at.Size())
			if v.from != last { // moves are sorted by sender
				gives[v.from]++
				gets[r]++
				last = v.from
			}
		}
	}
	var c Cost
	for r := range n {
		c.Total += sent[r]
		c.Sent = max(c.Sent, sent[r])
		c.Rounds = max(c.Rounds, gives[r], gets[r])
	}
	return c
}
