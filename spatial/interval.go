package spatial

import (
	"slices"
	"sort"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Interval is the half-open range [Lo, Hi) of indices along an axis. On a periodic
// axis of n indices, an interval may extend beyond the ends; index i then means i
// mod n.
type Interval struct{ Lo, Hi int }

// Len returns the number of indices, 0 for an empty interval.
func (v Interval) Len() int { return max(0, v.Hi-v.Lo) }

// Intersect returns the intersection of two intervals.
func (v Interval) Intersect(w Interval) Interval { return Interval{max(v.Lo, w.Lo), min(v.Hi, w.Hi)} }

// OwnedInterval returns the interval that a rank owns along an axis of n indices.
// rank is the coordinate along the mesh axis of the partition c.
func OwnedInterval(c graph.AxisPartition, rank, n int) Interval {
	if c.MeshAxis == "" {
		return Interval{0, n}
	}
	hi := n
	if rank+1 < len(c.Starts) {
		hi = c.Starts[rank+1]
	}
	return Interval{c.Starts[rank], hi}
}

// OutputSplit derives the split of a result along an axis of size m from the split
// c of its operand. The rank that owns input o·stride owns output o. For an
// upsampling by up, the rank that owns input ⌊o/up⌋ owns output o.
//
// ok is false if a rank would own no output.
func OutputSplit(a graph.WindowAxis, c graph.AxisPartition, m int) (out graph.AxisPartition, ok bool) {
	if c.MeshAxis == "" {
		return c, true
	}
	out = graph.AxisPartition{MeshAxis: c.MeshAxis, Starts: make([]int, len(c.Starts))}
	for r, i := range c.Starts {
		o := ceil(i*max(a.UpFactor, 1), a.Stride)
		if o >= m || r > 0 && o <= out.Starts[r-1] {
			return out, false
		}
		out.Starts[r] = o
	}
	return out, true
}

// PaddedInputRange returns the interval from the first to the last input that an
// interval of outputs reads, padding included. Without upsampling it is
//
//	[lo·s − pad, (hi−1)·s − pad + (k−1)·d + 1)
//
// with stride s, window size k and dilation d.
func PaddedInputRange(a graph.WindowAxis, outputs Interval) Interval {
	if outputs.Len() == 0 {
		return Interval{}
	}
	lo, _ := a.Taps(outputs.Lo)
	last, taps := a.Taps(outputs.Hi - 1)
	return Interval{lo, last + (taps-1)*a.Dilation + 1}
}

// InputsRead returns the inputs, of n, that an interval of outputs reads, as disjoint
// intervals in ascending order. On a non-periodic axis, indices beyond [0, n) are
// padding and not read. There are several intervals if taps are further apart than
// outputs.
//
// Example: a filter of size 3 with padding 1 on 12 longitudes split into 3 shards.
// The rank that owns [4, 8) requires [3, 9). On a periodic axis the rank that owns
// [0, 4) requires [−1, 5), where −1 is longitude 11 of the last rank.
//
// Cost: constant without gaps between taps and between windows, else the number of
// outputs times the size of the window.
func InputsRead(a graph.WindowAxis, outputs Interval, n int) []Interval {
	room := PaddedInputRange(a, outputs)
	if a.Dilation == 1 && (a.Stride <= a.Size || outputs.Len() == 1) {
		return clipped(a, room, n)
	}
	read := make([]bool, room.Len())
	for o := outputs.Lo; o < outputs.Hi; o++ {
		first, taps := a.Taps(o)
		for t := range taps {
			if i := first + t*a.Dilation; a.Periodic || i >= 0 && i < n {
				read[i-room.Lo] = true
			}
		}
	}
	return intervalsOf(read, room.Lo)
}

// OutputsReading returns the outputs, of m, that read an input of an interval, as
// disjoint intervals in ascending order. The gradient of these inputs reads the
// gradients of these outputs.
//
// Cost: constant without gaps between taps, else the number of these outputs times
// the size of the window.
func OutputsReading(a graph.WindowAxis, inputs Interval, m int) []Interval {
	if inputs.Len() == 0 {
		return nil
	}
	reach := (a.Size - 1) * a.Dilation
	room := Interval{ceil(inputs.Lo+a.Pad-reach, a.Stride), floor(inputs.Hi-1+a.Pad, a.Stride) + 1}
	if up := a.UpFactor; up > 1 {
		room = Interval{up*inputs.Lo - up/2, up*inputs.Hi + up/2}
	}
	if a.Dilation == 1 {
		return clipped(a, room, m)
	}
	if !a.Periodic {
		room = room.Intersect(Interval{0, m})
	}
	reads := make([]bool, room.Len())
	for k := range reads {
		first, taps := a.Taps(room.Lo + k)
		for t := range taps {
			i := first + t*a.Dilation
			reads[k] = reads[k] || i >= inputs.Lo && i < inputs.Hi
		}
	}
	return intervalsOf(reads, room.Lo)
}

// clipped returns an interval, without what is beyond the n indices of an axis that
// is not periodic; nothing if it is empty.
func clipped(a graph.WindowAxis, v Interval, n int) []Interval {
	if !a.Periodic {
		v = v.Intersect(Interval{0, n})
	}
	if v.Len() == 0 {
		return nil
	}
	return []Interval{v}
}

// intervalsOf returns the maximal intervals of true elements. The first element has
// index lo.
func intervalsOf(in []bool, lo int) (out []Interval) {
	for k, yes := range in {
		switch i := lo + k; {
		case !yes:
		case k > 0 && in[k-1]:
			out[len(out)-1].Hi = i + 1
		default:
			out = append(out, Interval{i, i + 1})
		}
	}
	return out
}

// hull returns the smallest interval that contains disjoint intervals in ascending
// order; the zero interval if there are none.
func hull(parts []Interval) Interval {
	if len(parts) == 0 {
		return Interval{}
	}
	return Interval{parts[0].Lo, parts[len(parts)-1].Hi}
}

// holesIn returns the intervals of v outside disjoint intervals in ascending order,
// all of which v contains.
func holesIn(v Interval, parts []Interval) (out []Interval) {
	for _, p := range append(slices.Clone(parts), Interval{v.Hi, v.Hi}) {
		if p.Len() == 0 && p.Lo != v.Hi {
			continue
		}
		if v.Lo < p.Lo {
			out = append(out, Interval{v.Lo, p.Lo})
		}
		v.Lo = p.Hi
	}
	return out
}

// wrapped returns the indices, of n, of intervals that may extend beyond the ends of
// a periodic axis.
func wrapped(parts []Interval, n int) []Interval {
	if span := hull(parts); span.Lo >= 0 && span.Hi <= n {
		return parts
	}
	in := make([]bool, n)
	for _, p := range parts {
		for i := p.Lo; i < p.Hi; i++ {
			in[((i%n)+n)%n] = true
		}
	}
	return intervalsOf(in, 0)
}

// cutOut returns an interval without the holes within it.
func cutOut(v Interval, holes []Interval) (parts []Interval) {
	for _, h := range holes {
		parts = append(parts, Interval{v.Lo, h.Lo})
		v.Lo = h.Hi
	}
	return append(parts, v)
}

// union adds an interval to disjoint intervals in ascending order. Empty ones are
// left out.
func union(parts []Interval, v Interval) (out []Interval) {
	all := append([]Interval{v}, parts...)
	slices.SortFunc(all, func(a, b Interval) int { return a.Lo - b.Lo })
	for _, p := range all {
		switch k := len(out) - 1; {
		case p.Len() == 0:
		case k >= 0 && p.Lo <= out[k].Hi:
			out[k].Hi = max(out[k].Hi, p.Hi)
		default:
			out = append(out, p)
		}
	}
	return out
}

// Piece is a run of indices that one rank sends to another.
type Piece struct {
	Rank int // coordinate of the owner along the mesh axis
	// At is the run on the axis, within [0, n). To is the run in the coordinates of
	// the receiver: At, shifted by a multiple of n if the axis is periodic.
	At, To Interval
	// Repeats are further runs of the receiver with the same indices.
	Repeats []Interval
}

// Sources returns the owners of the interval need of an axis of n indices, the
// receiver included, in ascending order of index. An interval longer than n visits
// owners more than once.
//
// Cost: O(log P + pieces) per period of the axis.
func Sources(c graph.AxisPartition, need Interval, n int) []Piece {
	var pieces []Piece
	if need.Len() == 0 {
		return nil
	}
	ranks := max(1, len(c.Starts))
	if c.MeshAxis == "" {
		ranks = 1
	}
	for turn := floor(need.Lo, n); turn*n < need.Hi; turn++ {
		first := 0
		if ranks > 1 { // the last rank whose shard starts at or before need.Lo
			first = max(0, sort.SearchInts(c.Starts, need.Lo-turn*n+1)-1)
		}
		for r := first; r < ranks; r++ {
			own := OwnedInterval(c, r, n)
			if own.Lo+turn*n >= need.Hi {
				break
			}
			to := Interval{own.Lo + turn*n, own.Hi + turn*n}.Intersect(need)
			if to.Len() > 0 {
				pieces = append(pieces, Piece{Rank: r, At: Interval{to.Lo - turn*n, to.Hi - turn*n}, To: to})
			}
		}
	}
	return pieces
}

// sourcesOf returns the pieces of Sources whose owner is a rank, which owns own.
func sourcesOf(rank int, own, need Interval, n int) (pieces []Piece) {
	for turn := floor(need.Lo, n); need.Len() > 0 && turn*n < need.Hi; turn++ {
		if to := (Interval{own.Lo + turn*n, own.Hi + turn*n}).Intersect(need); to.Len() > 0 {
			pieces = append(pieces, Piece{Rank: rank, At: Interval{to.Lo - turn*n, to.Hi - turn*n}, To: to})
		}
	}
	return pieces
}

// without returns pieces without the indices in holes, which are disjoint intervals
// of the receiver in ascending order.
func without(pieces []Piece, holes []Interval) []Piece {
	for _, h := range holes {
		var rest []Piece
		for _, p := range pieces {
			rest = append(rest, p.between(p.To.Lo, h.Lo)...)
			rest = append(rest, p.between(h.Hi, p.To.Hi)...)
		}
		pieces = rest
	}
	return pieces
}

// between returns the part of a piece in [lo, hi) of the receiver: one piece, or
// none if the part is empty.
func (p Piece) between(lo, hi int) []Piece {
	to, shift := p.To.Intersect(Interval{lo, hi}), p.To.Lo-p.At.Lo
	if to.Len() == 0 {
		return nil
	}
	return []Piece{{Rank: p.Rank, At: Interval{to.Lo - shift, to.Hi - shift}, To: to}}
}

// joinRepeats splits pieces of an axis of n indices where others of the same indices
// start or end, and joins those with the same indices, so that no index is sent to a
// receiver twice. Indices repeat if the receiver's interval is longer than the axis.
func joinRepeats(pieces []Piece, n int) []Piece {
	if k := len(pieces) - 1; k < 0 || pieces[k].To.Hi-pieces[0].To.Lo <= n {
		return pieces
	}
	var ends []int
	for _, p := range pieces {
		ends = append(ends, p.At.Lo, p.At.Hi)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var joined []Piece
	for _, p := range pieces {
		shift := p.To.Lo - p.At.Lo
		for i := 1; i < len(ends); i++ {
			for _, part := range p.between(ends[i-1]+shift, ends[i]+shift) {
				if k := slices.IndexFunc(joined, func(j Piece) bool { return j.At == part.At }); k >= 0 {
					joined[k].Repeats = append(joined[k].Repeats, part.To)
				} else {
					joined = append(joined, part)
				}
			}
		}
	}
	return joined
}

// floor returns ⌊a/b⌋ for b of any sign; Go's division truncates.
func floor(a, b int) int {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// ceil returns ⌈a/b⌉.
func ceil(a, b int) int { return -floor(-a, b) }
