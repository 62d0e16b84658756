//go:build cgo && linux

package kern

/*
#cgo noescape ens_unary
#cgo nocallback ens_unary
#cgo noescape ens_unary_grad
#cgo nocallback ens_unary_grad
#cgo noescape ens_binary
#cgo nocallback ens_binary
#cgo noescape ens_affine
#cgo nocallback ens_affine
#cgo noescape ens_axpy
#cgo nocallback ens_axpy
#cgo noescape ens_fill
#cgo nocallback ens_fill
#cgo noescape ens_broadcast
#cgo nocallback ens_broadcast
#cgo noescape ens_affine_mid
#cgo nocallback ens_affine_mid
#cgo noescape ens_batchnorm_grad
#cgo nocallback ens_batchnorm_grad
#include "kern.h"
*/
import "C"

// Unary computes y[i] = f(x[i]). y may alias x.
//
// Missing: NaN gives NaN.
// Source: NIST DLMF 4.2, 4.28 and 7.2; op/unary.go has the formula and source of each.
func (p *Pool) Unary(f Unary, y, x []float32) {
	want("x", len(x), len(y))
	C.ens_unary(p.ptr(), C.int(f), f32(y), f32(x), C.long(len(y)))
}

// UnaryGrad computes dx[i] = dy[i]·f′(x[i]), with y = f(x). dx may alias any argument.
// The derivatives of ReLU and Abs at 0 are 0. Either x or y is read; the other may be
// nil:
//
//	x: Log Square Abs Softplus Erf      y: ReLU Exp Sqrt Reciprocal Sigmoid Tanh
//	neither: Neg
func (p *Pool) UnaryGrad(f Unary, dx, dy, x, y []float32) {
	want("dy", len(dy), len(dx))
	switch f {
	case Log, Square, Abs, Softplus, Erf:
		want("x", len(x), len(dx))
	case ReLU, Exp, Sqrt, Reciprocal, Sigmoid, Tanh:
		want("y", len(y), len(dx))
	}
	C.ens_unary_grad(p.ptr(), C.int(f), f32(dx), f32(dy), f32(x), f32(y), C.long(len(dx)))
}

// Binary computes y[i] = a[i] op b[i]. y may alias a and b.
func (p *Pool) Binary(op Binary, y, a, b []float32) {
	want("a", len(a), len(y))
	want("b", len(b), len(y))
	C.ens_binary(p.ptr(), C.int(op), f32(y), f32(a), f32(b), C.long(len(y)))
}

// Affine computes y[i] = scale·x[i] + shift. y may alias x.
func (p *Pool) Affine(y, x []float32, scale, shift float32) {
	want("x", len(x), len(y))
	C.ens_affine(p.ptr(), f32(y), f32(x), C.float(scale), C.float(shift), C.long(len(y)))
}

// AXPY computes y[i] += a·x[i].
//
// Source: Lawson et al. 1979, doi:10.1145/355841.355847 (BLAS).
func (p *Pool) AXPY(y, x []float32, a float32) {
	want("x", len(x), len(y))
	C.ens_axpy(p.ptr(), f32(y), f32(x), C.float(a), C.long(len(y)))
}

// Fill computes y[i] = v.
func (p *Pool) Fill(y []float32, v float32) {
	C.ens_fill(p.ptr(), f32(y), C.float(v), C.long(len(y)))
}

// Dims describes a tensor as three axes, each of which may stand for several axes.
type Dims struct{ Outer, Mid, Inner int }

// Len returns the number of values.
func (d Dims) Len() int { return d.Outer * d.Mid * d.Inner }

// Broadcast computes y[o][m][i] = a[o][m][i] op b[o·so + m·sm + i·si]. A stride of 0
// repeats b along the axis; si is 0 or 1. y may alias a.
//
// For one value per channel of [N][C][D·H·W] the strides are 0, 1, 0.
func (p *Pool) Broadcast(op Binary, y, a, b []float32, d Dims, so, sm, si int) {
	want("y", len(y), d.Len())
	want("a", len(a), d.Len())
	if d.Len() == 0 {
		return
	}
	if last := (d.Outer-1)*so + (d.Mid-1)*sm + (d.Inner-1)*si; so < 0 || sm < 0 || si < 0 || si > 1 || last >= len(b) {
		panic("kern: Broadcast with strides beyond b")
	}
	C.ens_broadcast(p.ptr(), C.int(op), f32(y), f32(a), f32(b), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner),
		C.long(so), C.long(sm), C.long(si))
}

// AffineMid computes y[o][m][i] = scale[m]·x[o][m][i] + shift[m], the forward pass of
// batch normalisation. y may alias x.
func (p *Pool) AffineMid(y, x, scale, shift []float32, d Dims) {
	want("y", len(y), d.Len())
	want("x", len(x), d.Len())
	want("scale", len(scale), d.Mid)
	want("shift", len(shift), d.Mid)
	C.ens_affine_mid(p.ptr(), f32(y), f32(x), f32(scale), f32(shift), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// CombineMid computes z[o][m][i] = a[m]·x[o][m][i] + b[m]·y[o][m][i] + c[m], the
// backward pass of batch normalisation with x the gradient of the result and y the
// input. z may alias x or y.
//
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.
func (p *Pool) CombineMid(z, x, y, a, b, c []float32, d Dims) {
	want("z", len(z), d.Len())
	want("x", len(x), d.Len())
	want("y", len(y), d.Len())
	want("a", len(a), d.Mid)
	want("b", len(b), d.Mid)
	want("c", len(c), d.Mid)
	C.ens_batchnorm_grad(p.ptr(), f32(z), f32(x), f32(y), f32(a), f32(b), f32(c), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}
