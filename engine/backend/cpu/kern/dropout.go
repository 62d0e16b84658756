//go:build cgo && linux

package kern

/*
#cgo noescape ens_dropout
#cgo nocallback ens_dropout
#cgo noescape ens_blocked_dropout
#cgo nocallback ens_blocked_dropout
#include "kern.h"
*/
import "C"

// DropoutSpec defines which elements become zero: element i, if the upper 53 bits of
// number i of the random stream Key (package rng) are below Threshold. Others are
// multiplied by Keep.
type DropoutSpec struct {
	Key, Threshold uint64
	Keep           float32
}

// Dropout computes y[i] = 0 or Keep·x[i]. y may alias x. With Keep = 1/(1 − p) for the
// probability p of 0, the expected value of y is x. The gradient is the same call on dy,
// since nothing is stored: the random numbers depend on key and position only.
//
// Source: Srivastava et al. 2014, JMLR 15, 1929–1958.
func (p *Pool) Dropout(y, x []float32, d DropoutSpec) {
	want("x", len(x), len(y))
	C.ens_dropout(p.ptr(), f32(y), f32(x), C.ulong(d.Key), C.ulong(d.Threshold), C.float(d.Keep), C.long(len(y)))
}

// BlockedDropout is Dropout of a blocked tensor. Elements are numbered as in the plain
// tensor. y may alias x.
//
// Shape: x, y of shape b.
func (p *Pool) BlockedDropout(y, x Stored, d DropoutSpec, b Blocked) {
	y.want("y", b.Len(), y)
	x.want("x", b.Len(), y)
	C.ens_blocked_dropout(p.ptr(), y.storage(), y.ptr, x.ptr, C.ulong(d.Key), C.ulong(d.Threshold), C.float(d.Keep),
		C.long(b.N), C.long(b.C), C.long(b.Cells()))
}
