//go:build cgo && linux

package kern

/*
#cgo noescape ens_point
#cgo nocallback ens_point
#cgo noescape ens_point_filter
#cgo nocallback ens_point_filter
#include "kern.h"
*/
import "C"

// Point is a convolution with a filter of one cell: N fields of Cells cells, a
// source of one or two parts with that many channels, and K channels of the
// result, all of them blocked and in one storage.
type Point struct {
	N, Cells int
	Parts    [2]int
	K        int
}

// Source is the number of channels of the source.
func (s Point) Source() int { return s.Parts[0] + s.Parts[1] }

// field is the shape of a value with c channels.
func (s Point) field(c int) Blocked { return Blocked{N: s.N, C: c, S: [3]int{1, 1, s.Cells}} }

// ScratchLen is the number of values that PointConv needs as scratch.
func (s Point) ScratchLen() int { return blocks(s.K) * Block * (s.Source() + 1) }

// PointArgs are the operands of PointConv. The filter's value for channel k of
// the result and c of the source is W[k·WK + c·WC]. X1, Bias, Plus and Gate may
// be left out.
type PointArgs struct {
	X0, X1, Plus, Gate Stored
	W, Bias            []float32
	WK, WC             int
	ReLU               bool
}

// PointConv computes y[k] = Σ w[k][c]·x[c] + bias[k] + plus in every cell, or
// max of it and 0 with ReLU, or 0 where gate is not positive. The sources are
// read again after parts of y have been written: y may alias plus and gate only.
func (p *Pool) PointConv(y Stored, a PointArgs, scratch []float32, s Point) {
	out := s.field(s.K).Len()
	s.checkSource(a.X0, a.X1)
	y.want("y", out, a.X0)
	if s.K > 0 && s.Source() > 0 && (a.WK < 0 || a.WC < 0 || (s.K-1)*a.WK+(s.Source()-1)*a.WC >= len(a.W)) {
		panic("kern: PointConv with a filter that is too short")
	}
	if a.Bias != nil {
		want("bias", len(a.Bias), s.K)
	}
	a.Plus.wantIfSet("plus", out, y)
	a.Gate.wantIfSet("gate", out, y)
	if len(scratch) < s.ScratchLen() {
		panic("kern: PointConv with too little scratch")
	}
	C.ens_point(p.ptr(), y.storage(), y.ptr, a.X0.ptr, a.X1.ptr, f32(a.W), C.long(a.WK), C.long(a.WC), f32(a.Bias), a.Gate.ptr, a.Plus.ptr,
		flag(a.ReLU), f32(scratch), C.long(s.N), C.long(s.Parts[0]), C.long(s.Parts[1]), C.long(s.K), C.long(s.Cells))
}

// PointFilter computes dw[k][c] = Σ x[c]·dy[k] over all cells, in pieces that are
// added in double, in order.
func (p *Pool) PointFilter(dw []float32, x0, x1, dy Stored, s Point) {
	s.checkSource(x0, x1)
	want("dw", len(dw), s.K*s.Source())
	dy.want("dy", s.field(s.K).Len(), x0)
	C.ens_point_filter(p.ptr(), x0.storage(), f32(dw), x0.ptr, x1.ptr, dy.ptr, C.long(s.N), C.long(s.Parts[0]), C.long(s.Parts[1]),
		C.long(s.K), C.long(s.Cells))
}

// checkSource checks the parts of the source.
func (s Point) checkSource(x0, x1 Stored) {
	want("x0", x0.n, s.field(s.Parts[0]).Len())
	want("x1", x1.n, s.field(s.Parts[1]).Len())
	x1.wantIfSet("x1", x1.n, x0)
}
