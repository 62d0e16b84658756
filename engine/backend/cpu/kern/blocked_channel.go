//go:build cgo && linux

package kern

/*
#cgo noescape ens_blocked_sums
#cgo nocallback ens_blocked_sums
#cgo noescape ens_blocked_moments
#cgo nocallback ens_blocked_moments
#cgo noescape ens_blocked_affine
#cgo nocallback ens_blocked_affine
#cgo noescape ens_blocked_combine
#cgo nocallback ens_blocked_combine
#include "kern.h"
*/
import "C"

// BlockedSums computes, per channel over N and S, sum[c] = Σ x and, unless dot
// is nil, dot[c] = Σ x·z; with a gate, x counts only where it is positive. Sums
// run in double. gate may be left out, and so may z where dot is nil.
//
// Shape: x, z, gate of shape b → sum, dot [C].
func (p *Pool) BlockedSums(sum, dot []float32, x, z, gate Stored, b Blocked) {
	want("sum", len(sum), b.C)
	x.want("x", b.Len(), x)
	gate.wantIfSet("gate", b.Len(), x)
	if dot != nil {
		want("dot", len(dot), b.C)
		z.want("z", b.Len(), x)
	}
	C.ens_blocked_sums(p.ptr(), x.storage(), f32(sum), f32(dot), x.ptr, z.ptr, gate.ptr, C.long(b.N), C.long(b.C),
		C.long(b.Cells()))
}

// BlockedMoments computes the mean and the variance (divided by the count) of
// each channel over N and S, in double, in one sweep about the channel's first
// value.
//
// Shape: x of shape b, which is not empty → mean, variance [C].
func (p *Pool) BlockedMoments(mean, variance []float32, x Stored, b Blocked) {
	want("mean", len(mean), b.C)
	want("variance", len(variance), b.C)
	x.want("x", b.Len(), x)
	if b.Len() == 0 {
		panic("kern: moments of nothing")
	}
	C.ens_blocked_moments(p.ptr(), x.storage(), f32(mean), f32(variance), x.ptr, C.long(b.N), C.long(b.C), C.long(b.Cells()))
}

// BlockedAffine computes y = scale[c]·x + shift[c], or with relu the ReLU of
// it: batch normalisation, forward. y may alias x. ReLU keeps NaN.
//
// Shape: x, y of shape b; scale, shift [C].
func (p *Pool) BlockedAffine(y, x Stored, scale, shift []float32, b Blocked, relu bool) {
	y.want("y", b.Len(), y)
	x.want("x", b.Len(), y)
	want("scale", len(scale), b.C)
	want("shift", len(shift), b.C)
	C.ens_blocked_affine(p.ptr(), y.storage(), y.ptr, x.ptr, f32(scale), f32(shift), flag(relu), C.long(b.N), C.long(b.C),
		C.long(b.Cells()))
}

// BlockedCombine computes z = a[c]·x + b[c]·y + c[c], where x counts only where
// gate is positive: batch normalisation with a ReLU after it, backward, with x
// the gradient of the ReLU's result, gate that result and y the input. gate may
// be left out. z may alias any of them.
//
// Shape: x, y, z, gate of shape d; a, b, c [C].
func (p *Pool) BlockedCombine(z, x, y, gate Stored, a, b, c []float32, d Blocked) {
	z.want("z", d.Len(), z)
	x.want("x", d.Len(), z)
	y.want("y", d.Len(), z)
	gate.wantIfSet("gate", d.Len(), z)
	want("a", len(a), d.C)
	want("b", len(b), d.C)
	want("c", len(c), d.C)
	C.ens_blocked_combine(p.ptr(), z.storage(), z.ptr, x.ptr, y.ptr, gate.ptr, f32(a), f32(b), f32(c), C.long(d.N), C.long(d.C),
		C.long(d.Cells()))
}
