//go:build cgo && linux

package kern

/*
#cgo noescape ens_set_pool
#cgo nocallback ens_set_pool
#cgo noescape ens_set_pool_grad
#cgo nocallback ens_set_pool_grad
#cgo noescape ens_set_crps
#cgo nocallback ens_set_crps
#include "kern.h"
*/
import "C"

// SetReduction is a reduction over the members of a set.
type SetReduction int

// The reductions, numbered as in kern.h.
const (
	SetSum SetReduction = iota
	SetMean
	SetStd
	SetMin
	SetMax
)

// MaxSet is the largest number of members of a set.
const MaxSet = C.ENS_SET_ROOM

// wantSet checks the sizes of sets: Outer samples of Mid members.
func wantSet(x []float32, d Dims, perSample ...[]float32) {
	want("x", len(x), d.Len())
	for _, y := range perSample {
		want("a value per sample", len(y), d.Outer*d.Inner)
	}
	if d.Mid < 1 || d.Mid > MaxSet {
		panic("kern: sets without rows or of too many")
	}
}

// SetPool reduces x[o][m][i] over m to y[o][i]: sum, mean, standard deviation (divisor
// Mid−1), minimum or maximum. Values are sorted and added in float64, so that the order
// of members does not change the result.
//
// Missing: NaN gives NaN.
func (p *Pool) SetPool(kind SetReduction, y, x []float32, d Dims) {
	wantSet(x, d, y)
	C.ens_set_pool(p.ptr(), C.int(kind), f32(y), f32(x), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// SetPoolGrad computes the gradient dx[o][m][i] of SetPool from x, its result y and
// dy[o][i]:
//
//	SetStd          dy·(x−mean)/((Mid−1)·max(y, 1e-6))
//	SetMin, SetMax  dy in equal shares to the members equal to y
//
// dx may alias x.
func (p *Pool) SetPoolGrad(kind SetReduction, dx, x, y, dy []float32, d Dims) {
	wantSet(x, d, y, dy)
	want("dx", len(dx), len(x))
	C.ens_set_pool_grad(p.ptr(), C.int(kind), f32(dx), f32(x), f32(y), f32(dy), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// SetCRPS computes the kernel CRPS of the members x[o][m][i] against y[o][i]:
//
//	(1/M) Σᵢ|xᵢ−y| − pair · Σ_{i<j}|xᵢ−xⱼ|
//
// pair is 1/M² for the plain and 1/(M(M−1)) for the fair CRPS. If first > 0, only pairs
// of one of the first members and one of the others count. The order of members within
// these groups does not change the result.
//
// Missing: NaN gives NaN.
// Source: Ferro 2014, doi:10.1002/qj.2270 (fair CRPS); package postproc/dist.
func (p *Pool) SetCRPS(score, x, y []float32, d Dims, first int, pair float64) {
	wantSet(x, d, y, score)
	C.ens_set_crps(p.ptr(), f32(score), nil, f32(x), f32(y), nil, C.long(d.Outer), C.long(d.Mid), C.long(d.Inner), C.long(first), C.double(pair))
}

// SetCRPSGrad computes the gradient dx[o][m][i] of SetCRPS times dy[o][i]. sign(0) is
// 0. dx may alias x.
func (p *Pool) SetCRPSGrad(dx, x, y, dy []float32, d Dims, first int, pair float64) {
	wantSet(x, d, y, dy)
	want("dx", len(dx), len(x))
	C.ens_set_crps(p.ptr(), nil, f32(dx), f32(x), f32(y), f32(dy), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner), C.long(first), C.double(pair))
}
