package spatial

import (
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

// PaddedInputRange returns the inputs that an interval of outputs reads, padding
// included:
//
//	[⌊lo·s/u⌋ − pad, ⌊(hi−1)·s/u⌋ − pad + (k−1)·d + 1)
//
// with stride s, upsampling u, window size k and dilation d.
func PaddedInputRange(a graph.WindowAxis, outputs Interval) Interval {
	if outputs.Len() == 0 {
		return Interval{}
	}
	up := max(a.UpFactor, 1)
	return Interval{
		floor(outputs.Lo*a.Stride, up) - a.Pad,
		floor((outputs.Hi-1)*a.Stride, up) - a.Pad + (a.Size-1)*a.Dilation + 1,
	}
}

// InputRange returns the inputs, of n, that an interval of outputs reads. On a
// non-periodic axis the interval is clipped to [0, n); indices beyond are padding.
//
// Example: a filter of size 3 with padding 1 on 12 longitudes split into 3 shards.
// The rank that owns [4, 8) requires [3, 9). On a periodic axis the rank that owns
// [0, 4) requires [−1, 5), where −1 is longitude 11 of the last rank.
func InputRange(a graph.WindowAxis, outputs Interval, n int) Interval {
	need := PaddedInputRange(a, outputs)
	if !a.Periodic {
		need = need.Intersect(Interval{0, n})
	}
	return need
}

// AdjointRange returns the outputs, of m, whose windows contain an input of the
// interval. The gradient of these inputs reads the gradients of these outputs.
func AdjointRange(a graph.WindowAxis, inputs Interval, m int) Interval {
	if inputs.Len() == 0 {
		return Interval{}
	}
	// Output o reads inputs from ⌊o·Stride/Up⌋ − Pad to at most reach indices
	// further. Solve both bounds for o.
	up, reach := max(a.UpFactor, 1), (a.Size-1)*a.Dilation
	need := Interval{
		ceil((inputs.Lo+a.Pad-reach)*up, a.Stride),
		floor((inputs.Hi-1+a.Pad)*up+up-1, a.Stride) + 1,
	}
	if !a.Periodic {
		need = need.Intersect(Interval{0, m})
	}
	return need
}

// HaloWidths returns the widths of the halo before and after the interval that a
// rank owns. A width is 0 if the rank owns more than it needs on that side.
func HaloWidths(need, own Interval) (before, behind int) {
	if need.Len() == 0 {
		return 0, 0
	}
	return max(0, own.Lo-need.Lo), max(0, need.Hi-own.Hi)
}

// InteriorOutputs returns those of a rank's outputs that read only inputs the rank
// owns. They can be computed while the halo is in transit. n is the size of the
// operand's axis.
//
// Example: with a filter of size 3 and outputs [4, 8) from inputs [4, 8) the
// interior is [5, 7).
func InteriorOutputs(a graph.WindowAxis, outputs, own Interval, n int) Interval {
	in := outputs
	whole := func(o int) bool {
		need := InputRange(a, Interval{o, o + 1}, n)
		return need.Lo >= own.Lo && need.Hi <= own.Hi
	}
	for in.Len() > 0 && !whole(in.Lo) {
		in.Lo++
	}
	for in.Len() > 0 && !whole(in.Hi-1) {
		in.Hi--
	}
	return in
}

// Piece is a run of indices that one rank sends to another.
type Piece struct {
	Rank int // coordinate of the owner along the mesh axis
	// At is the run on the axis, within [0, n). To is the run in the coordinates of
	// the receiver: At, shifted by a multiple of n if the axis is periodic.
	At, To Interval
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
				pieces = append(pieces, Piece{r, Interval{to.Lo - turn*n, to.Hi - turn*n}, to})
			}
		}
	}
	return pieces
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
