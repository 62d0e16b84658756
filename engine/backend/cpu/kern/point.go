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

// Point describes a convolution whose filter is one grid point, a matrix product over
// channels. Input and result are blocked and have one storage type.
type Point struct {
	N, Cells int    // samples, and grid points of each
	Parts    [2]int // channels of the input, one or two tensors
	K        int    // channels of the result
}

// Source returns the number of channels of the input.
func (s Point) Source() int { return s.Parts[0] + s.Parts[1] }

// field returns the shape of a value with c channels.
func (s Point) field(c int) Blocked { return Blocked{N: s.N, C: c, S: [3]int{1, 1, s.Cells}} }

// ScratchLen returns the number of values of scratch that PointConv needs.
func (s Point) ScratchLen() int { return blocks(s.K) * Block * (s.Source() + 1) }

// PointArgs are the operands of PointConv. The weight of output channel k and input
// channel c is W[k·WK + c·WC]. X1, Bias, Plus and Gate are optional.
type PointArgs struct {
	X0, X1, Plus, Gate Stored
	W, Bias            []float32
	WK, WC             int
	ReLU               bool
}

// PointConv computes at every grid point
//
//	y[k] = Σ_c w[k][c]·x[c] + bias[k] + plus[k]
//
// followed by ReLU, or by 0 where the gate is not positive. y may alias plus and gate,
// but not the inputs: these are read again after parts of y are written.
//
// Source: torch.nn.Conv3d with a filter of one point; Lin, Chen and Yan 2014,
// arXiv:1312.4400.
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

// PointFilter computes dw[k][c] = Σ x[c]·dy[k] over all samples and grid points.
// Partial sums are added in float64, in a fixed order.
func (p *Pool) PointFilter(dw []float32, x0, x1, dy Stored, s Point) {
	s.checkSource(x0, x1)
	want("dw", len(dw), s.K*s.Source())
	dy.want("dy", s.field(s.K).Len(), x0)
	C.ens_point_filter(p.ptr(), x0.storage(), f32(dw), x0.ptr, x1.ptr, dy.ptr, C.long(s.N), C.long(s.Parts[0]), C.long(s.Parts[1]),
		C.long(s.K), C.long(s.Cells))
}

// checkSource panics unless x0 and x1 are the parts of the input.
func (s Point) checkSource(x0, x1 Stored) {
	want("x0", x0.n, s.field(s.Parts[0]).Len())
	want("x1", x1.n, s.field(s.Parts[1]).Len())
	x1.wantIfSet("x1", x1.n, x0)
}
