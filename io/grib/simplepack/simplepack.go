// Package simplepack decodes simple packing. It needs no library and reads only the
// bytes that it is given, so it may run in any process. With cgo a vectorised C
// kernel runs; unpackReference is the reference kernel.
//
// Source: FM 92 GRIB2, regulation 92.9.4 and template 5.0.
package simplepack

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// Rect selects a rectangle of packed integers and the position of its values: row j
// begins at integer First + j·Stride and is written to out from To + j·Step.
type Rect struct {
	Rows, Columns int
	First, Stride int
	To, Step      int
}

// AllValues selects all integers of a field in storage order.
func AllValues(p *grib.SimplePacking) Rect { return Rect{Rows: 1, Columns: p.Count} }

// IsAligned reports whether all rows of the rectangle begin at whole bytes, as
// Unpack requires.
func (r Rect) IsAligned(bits int) bool {
	return r.First*bits%8 == 0 && (r.Rows < 2 || r.Stride*bits%8 == 0)
}

// Unpack decodes a rectangle of uncompressed integers.
//
// Shape: out has the positions of the rectangle; all other values stay unchanged.
// Errors: too little data, which grib.ParseSimplePacking rejects earlier; a
// rectangle that is not aligned, or that exceeds the integers or out.
func Unpack(out []float32, p *grib.SimplePacking, r Rect) error {
	if r.Rows == 0 || r.Columns == 0 {
		return nil
	}
	if p.CCSDS != nil || p.Bits < 1 || p.Bits > 32 || p.Count > 8*len(p.Data)/p.Bits {
		return fmt.Errorf("%d values of %d bits in %d bytes", p.Count, p.Bits, len(p.Data))
	}
	last, to := r.First+(r.Rows-1)*r.Stride, r.To+(r.Rows-1)*r.Step
	if !r.IsAligned(p.Bits) || r.Rows < 0 || r.Columns < 0 || min(r.First, r.Stride) < 0 || last > p.Count-r.Columns ||
		min(r.To, to) < 0 || max(r.To, to) > len(out)-r.Columns {
		return fmt.Errorf("rectangle %+v of %d numbers of %d bits does not fit %d values", r, p.Count, p.Bits, len(out))
	}
	unpack(out, p, r)
	return nil
}

// unpackReference is Unpack in plain Go: the reference kernel, and the only one
// without cgo.
func unpackReference(out []float32, p *grib.SimplePacking, r Rect) {
	binary, decimal := p.ScaleFactors()
	for j := range r.Rows {
		at := (r.First + j*r.Stride) * p.Bits
		for i := range out[r.To+j*r.Step:][:r.Columns] {
			var x uint64
			end := at + p.Bits
			for b := at >> 3; b < (end+7)>>3; b++ {
				x = x<<8 | uint64(p.Data[b])
			}
			x = x >> (7 & (8 - end&7)) & (1<<p.Bits - 1)
			out[r.To+j*r.Step+i] = float32((float64(float64(x)*binary) + p.Reference) * decimal)
			at = end
		}
	}
}
