package spatial

import (
	"sort"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Interval is the indices from Lo to before Hi of an axis. What is needed of a
// periodic axis may run over its ends: index i then means i modulo the size.
type Interval struct{ Lo, Hi int }

// Len is the number of indices, 0 for an empty interval.
func (v Interval) Len() int { return max(0, v.Hi-v.Lo) }

// Intersect is what both hold.
func (v Interval) Intersect(w Interval) Interval { return Interval{max(v.Lo, w.Lo), min(v.Hi, w.Hi)} }

// OwnedInterval is the interval of an axis of n indices that the rank-th of a cut's ranks owns.
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

// OutputSplit is the cut of an operation's result along an axis when its operand is cut by
// c: the rank that owns input o·stride owns output o, or for an upsampling the rank that
// owns input ⌊o/up⌋. m is the size of the result.
//
// ok is false if a rank would own nothing.
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

// PaddedInputRange is what the outputs of an interval read, padding included.
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

// InputRange is what the outputs of an interval read of an axis of n inputs. Without
// periodicity it ends at the ends of the axis; what lies beyond is padding.
func InputRange(a graph.WindowAxis, outputs Interval, n int) Interval {
	need := PaddedInputRange(a, outputs)
	if !a.Periodic {
		need = need.Intersect(Interval{0, n})
	}
	return need
}

// AdjointRange is the outputs, of m, whose windows hold an input of an interval: what
// the gradient of these inputs reads.
func AdjointRange(a graph.WindowAxis, inputs Interval, m int) Interval {
	if inputs.Len() == 0 {
		return Interval{}
	}
	// Output o reads from ⌊o·Stride/Up⌋ − Pad on, Reach indices further at most.
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

// HaloWidths is how many indices a rank needs before and behind its own.
func HaloWidths(need, own Interval) (before, behind int) {
	if need.Len() == 0 {
		return 0, 0
	}
	return max(0, own.Lo-need.Lo), max(0, need.Hi-own.Hi)
}

// InteriorOutputs is the outputs, of those a rank owns, that read nothing of other ranks: they
// can be computed while the halo is under way. n is the size of the operand's axis.
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

// Piece is a run of indices that one rank gives another.
type Piece struct {
	Rank int // along the axis of the mesh
	// At is where the run lies on the axis, From 0 to its size; To is where the receiver
	// wants it: At, plus or minus the size of a periodic axis.
	At, To Interval
}

// Sources lists who owns the parts of what a rank needs of an axis of n indices cut by
// c, its own included, in the order of indices.
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
		if ranks > 1 { // the last that starts at or before what is needed
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

func floor(a, b int) int {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func ceil(a, b int) int { return -floor(-a, b) }
