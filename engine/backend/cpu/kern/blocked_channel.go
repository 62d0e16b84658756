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

// Gate selects values by a field of the same shape: those where Scale[c]·field + Shift[c] is positive. That is where a
// normalisation of the field passed a ReLU. The zero value selects all.
//
// Shape: Scale, Shift [C].
type Gate struct{ Scale, Shift []float32 }

// wantIfSet checks the lengths.
func (g Gate) wantIfSet(c int) {
	if g.Scale != nil {
		want("scale of the gate", len(g.Scale), c)
		want("shift of the gate", len(g.Shift), c)
	}
}

// BlockedSums computes sums over samples and grid points, in float64:
//
//	sum[c] = Σ x    dot[c] = Σ x·z
//
// The gate is one of z. Without dot there is neither z nor gate.
//
// Shape: x, z of shape b → sum, dot [C].
func (p *Pool) BlockedSums(sum, dot []float32, x, z Stored, gate Gate, b Blocked) {
	want("sum", len(sum), b.C)
	x.want("x", b.Len(), x)
	gate.wantIfSet(b.C)
	if dot != nil {
		want("dot", len(dot), b.C)
		z.want("z", b.Len(), x)
	}
	C.ens_blocked_sums(p.ptr(), x.storage(), f32(sum), f32(dot), x.ptr, z.ptr, f32(gate.Scale), f32(gate.Shift), C.long(b.N), C.long(b.C),
		C.long(b.Cells()))
}

// BlockedMoments computes the mean and the variance (divisor: the count) of each
// channel over samples and grid points, in float64. It makes one pass over the data;
// sums are relative to the first value of the channel, so that a large mean does not
// cancel.
//
// With d = x − x₀ and n values: mean = x₀ + Σd/n and variance = (Σd² − (Σd)²/n)/n.
//
// Shape: x of shape b, not empty → mean, variance [C].
// Source: Chan, Golub and LeVeque 1983, doi:10.1080/00031305.1983.10483115 (shifted
// data).
func (p *Pool) BlockedMoments(mean, variance []float32, x Stored, b Blocked) {
	want("mean", len(mean), b.C)
	want("variance", len(variance), b.C)
	x.want("x", b.Len(), x)
	if b.Len() == 0 {
		panic("kern: moments of nothing")
	}
	C.ens_blocked_moments(p.ptr(), x.storage(), f32(mean), f32(variance), x.ptr, C.long(b.N), C.long(b.C), C.long(b.Cells()))
}

// BlockedAffine computes y = scale[c]·x + shift[c], followed by ReLU if relu is set:
// the forward pass of batch normalisation. y may alias x. ReLU keeps NaN.
//
// Shape: x, y of shape b; scale, shift [C].
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1, with scale = γ/√(σ² +
// ε) and shift = β − scale·μ.
func (p *Pool) BlockedAffine(y, x Stored, scale, shift []float32, b Blocked, relu bool) {
	y.want("y", b.Len(), y)
	x.want("x", b.Len(), y)
	want("scale", len(scale), b.C)
	want("shift", len(shift), b.C)
	C.ens_blocked_affine(p.ptr(), y.storage(), y.ptr, x.ptr, f32(scale), f32(shift), flag(relu), C.long(b.N), C.long(b.C),
		C.long(b.Cells()))
}

// BlockedCombine computes z = a[c]·x + b[c]·y + c[c], with 0 in place of x where the
// gate of y does not select it. That is the backward pass of batch normalisation and ReLU: x is
// the gradient of the result, y the input. z may alias any argument.
//
// Shape: x, y, z of shape d; a, b, c [C].
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, section 3: the gradients of
// algorithm 1, in which x and y occur linearly.
func (p *Pool) BlockedCombine(z, x, y Stored, gate Gate, a, b, c []float32, d Blocked) {
	z.want("z", d.Len(), z)
	x.want("x", d.Len(), z)
	y.want("y", d.Len(), z)
	gate.wantIfSet(d.C)
	want("a", len(a), d.C)
	want("b", len(b), d.C)
	want("c", len(c), d.C)
	C.ens_blocked_combine(p.ptr(), z.storage(), z.ptr, x.ptr, y.ptr, f32(gate.Scale), f32(gate.Shift), f32(a), f32(b), f32(c), C.long(d.N), C.long(d.C),
		C.long(d.Cells()))
}
