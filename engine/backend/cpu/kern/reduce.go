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

// Sum is Σ x[i] in double; the order depends on the length alone.
func (p *Pool) Sum(x []float32) float64 {
	var s C.double
	C.ens_sum(p.ptr(), &s, f32(x), nil, C.long(len(x)))
	return float64(s)
}

// Dot is Σ a[i]·b[i] in double: the weighted sum.
func (p *Pool) Dot(a, b []float32) float64 {
	want("b", len(b), len(a))
	if len(a) == 0 {
		return 0
	}
	var s C.double
	C.ens_sum(p.ptr(), &s, f32(a), f32(b), C.long(len(a)))
	return float64(s)
}

// SumAbs is Σ |x[i]| in double.
func (p *Pool) SumAbs(x []float32) float64 {
	var s C.double
	C.ens_sum_abs(p.ptr(), &s, f32(x), C.long(len(x)))
	return float64(s)
}

// SumMid computes y[m] = Σ over o and i of x[o][m][i]: the gradient of a bias
// or of a per channel scale. With a second tensor z, of x·z; z may be nil.
func (p *Pool) SumMid(y, x, z []float32, d Dims) {
	want("y", len(y), d.Mid)
	want("x", len(x), d.Len())
	if z != nil {
		want("z", len(z), d.Len())
	}
	C.ens_sum_mid(p.ptr(), f32(y), f32(x), f32(z), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// SumAxis computes y[o][i] = scale · Σ over m of x[o][m][i].
func (p *Pool) SumAxis(y, x []float32, scale float32, d Dims) {
	want("y", len(y), d.Outer*d.Inner)
	want("x", len(x), d.Len())
	C.ens_sum_axis(p.ptr(), f32(y), f32(x), C.float(scale), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// MomentsMid computes the mean and the variance (divided by the count) of
// x[o][m][i] over o and i, in two passes.
func (p *Pool) MomentsMid(mean, variance, x []float32, d Dims) {
	want("mean", len(mean), d.Mid)
	want("variance", len(variance), d.Mid)
	want("x", len(x), d.Len())
	C.ens_moments_mid(p.ptr(), f32(mean), f32(variance), f32(x), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}
