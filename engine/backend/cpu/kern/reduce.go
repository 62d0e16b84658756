//go:build cgo && linux

package kern

/*
#cgo noescape ens_sum
#cgo nocallback ens_sum
#cgo noescape ens_sum_abs
#cgo nocallback ens_sum_abs
#cgo noescape ens_sum_mid
#cgo nocallback ens_sum_mid
#cgo noescape ens_sum_axis
#cgo nocallback ens_sum_axis
#cgo noescape ens_moments_mid
#cgo nocallback ens_moments_mid
#include "kern.h"
*/
import "C"

// Sum returns Σ x[i] in float64. The order of summation depends on the length only.
func (p *Pool) Sum(x []float32) float64 {
	var s C.double
	C.ens_sum(p.ptr(), &s, f32(x), nil, C.long(len(x)))
	return float64(s)
}

// Dot returns Σ a[i]·b[i] in float64.
//
// Source: Lawson et al. 1979, doi:10.1145/355841.355847 (BLAS, dsdot).
func (p *Pool) Dot(a, b []float32) float64 {
	want("b", len(b), len(a))
	if len(a) == 0 {
		return 0
	}
	var s C.double
	C.ens_sum(p.ptr(), &s, f32(a), f32(b), C.long(len(a)))
	return float64(s)
}

// SumAbs returns Σ |x[i]| in float64.
func (p *Pool) SumAbs(x []float32) float64 {
	var s C.double
	C.ens_sum_abs(p.ptr(), &s, f32(x), C.long(len(x)))
	return float64(s)
}

// SumMid computes y[m] = Σ x[o][m][i] over o and i, or Σ x[o][m][i]·z[o][m][i] if z is
// not nil: the gradients of a bias and of a scale per channel.
func (p *Pool) SumMid(y, x, z []float32, d Dims) {
	want("y", len(y), d.Mid)
	want("x", len(x), d.Len())
	if z != nil {
		want("z", len(z), d.Len())
	}
	C.ens_sum_mid(p.ptr(), f32(y), f32(x), f32(z), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// SumAxis computes y[o][i] = scale · Σ x[o][m][i] over m.
func (p *Pool) SumAxis(y, x []float32, scale float32, d Dims) {
	want("y", len(y), d.Outer*d.Inner)
	want("x", len(x), d.Len())
	C.ens_sum_axis(p.ptr(), f32(y), f32(x), C.float(scale), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// MomentsMid computes the mean and the variance (divisor: the count) of x[o][m][i] over
// o and i, in two passes. The second pass sums (x − mean)², which does not cancel for a
// large mean.
//
// Source: Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115.
func (p *Pool) MomentsMid(mean, variance, x []float32, d Dims) {
	want("mean", len(mean), d.Mid)
	want("variance", len(variance), d.Mid)
	want("x", len(x), d.Len())
	C.ens_moments_mid(p.ptr(), f32(mean), f32(variance), f32(x), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}
