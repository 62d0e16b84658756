package workspace

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Slab is a range of rows of an axis that one piece computes.
type Slab struct {
	Algorithm       string // algorithm of the piece
	First, End      int    // output rows [First, End)
	InFirst, InEnd  int    // operand rows that they need
	PadLow, PadHigh int    // padding rows, at the true edges of the operand only
}

// errSlab is wrapped by the errors of Slabs.
var errSlab = errors.New("workspace: rows cannot be divided into slabs")

// Slabs divides an axis of out rows, computed from in rows of the operand by a
// window, into the pieces of c, in order from the first row.
//
// A piece of size n has n·rows rows, the last one the remainder. With rows = 2
// all inner boundaries are even, as strides and Winograd tiles require, and the
// kernel has size ⌈out/2⌉.
//
// With adjoint the window belongs to the forward pass and the slabs to its
// gradient with respect to the data: out counts rows of x and in rows of y. The
// gradient of the filter needs the rows of the forward pass: y from First to
// End and x from InFirst to InEnd.
//
// Errors: a periodic or upsampling window, or sizes that do not sum to the
// rows.
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
			var lo, hi int // operand rows, before clipping at the edges
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
