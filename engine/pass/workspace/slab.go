package workspace

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Slab is a run of rows of an axis that one piece computes.
type Slab struct {
	Algorithm       string
	First, End      int // output rows [First, End)
	InFirst, InEnd  int // rows of the operand that they need
	PadLow, PadHigh int // rows beyond the ends of the operand, at its true edges only
}

var errSlab = errors.New("workspace: these rows cannot be cut into slabs")

// Slabs cuts an axis of out rows, made from in rows of the operand by a window,
// into the pieces of c, in their order from the first row on.
//
// A piece of size n has n·rows rows, the last one what is left: with rows = 2
// all inner seams are even, as strides and the tiles of Winograd want, and the
// kernel has the size ⌈out/2⌉.
//
// With adjoint the window belongs to the forward pass and the slabs to its data
// gradient: out counts rows of x and in rows of y. The filter gradient needs the
// rows of the forward pass: y of First to End and x of InFirst to InEnd.
//
// Errors: a window that wraps around or scales up, or sizes that do not sum to
// the rows.
func Slabs(c Config, axis graph.WindowAxis, adjoint bool, in, out, rows int) ([]Slab, error) {
	if axis.Periodic || axis.UpFactor > 1 || axis.Size < 1 || axis.Stride < 1 || axis.Dilation < 1 || rows < 1 {
		return nil, fmt.Errorf("window %+v in steps of %d rows: %w", axis, rows, errSlab)
	}
	reach := (axis.Size - 1) * axis.Dilation
	var slabs []Slab
	first := 0
	for _, p := range c.Pieces {
		for range p.Count {
			s := Slab{Algorithm: p.Algorithm, First: first, End: min(first+p.Size*rows, out)}
			if s.First >= s.End {
				return nil, fmt.Errorf("%s of %d rows each ends before its last piece: %d rows: %w", c, rows, out, errSlab)
			}
			var lo, hi int // rows of the operand, of which some may not exist
			if adjoint {   // output o reads rows o·stride − pad + t·dilation
				lo = ceilDiv(s.First+axis.Pad-reach, axis.Stride)
				hi = ceilDiv(s.End+axis.Pad, axis.Stride)
			} else {
				lo = s.First*axis.Stride - axis.Pad
				hi = (s.End-1)*axis.Stride - axis.Pad + reach + 1
			}
			s.InFirst, s.InEnd = min(max(lo, 0), in), min(max(hi, 0), in)
			s.PadLow, s.PadHigh = max(min(-lo, hi-lo), 0), max(min(hi-in, hi-lo), 0)
			slabs = append(slabs, s)
			first = s.End
		}
	}
	if first != out {
		return nil, fmt.Errorf("%s covers %d of %d rows: %w", c, first, out, errSlab)
	}
	return slabs, nil
}

// ceilDiv is ⌈a/b⌉ for b > 0.
func ceilDiv(a, b int) int {
	if a > 0 {
		return (a + b - 1) / b
	}
	return a / b // towards zero
}
