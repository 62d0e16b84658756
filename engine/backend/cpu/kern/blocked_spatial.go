//go:build cgo && linux

package kern

/*
#cgo noescape ens_blocked_window
#cgo nocallback ens_blocked_window
#cgo noescape ens_blocked_window_grad
#cgo nocallback ens_blocked_window_grad
#cgo noescape ens_blocked_upsample
#cgo nocallback ens_blocked_upsample
#cgo noescape ens_blocked_upsample_grad
#cgo nocallback ens_blocked_upsample_grad
#include "kern.h"
*/
import "C"

// WindowKind says what a window gives.
type WindowKind int

// The kinds.
const (
	Maximum WindowKind = iota
	Mean
)

// BlockedWindow takes the maximum or the mean over disjoint windows k of a
// blocked tensor. NaN in a window gives NaN. Cells left over at the far end
// take no part.
//
// Shape: x of shape b → y of shape b with S = ⌊S/k⌋.
func (p *Pool) BlockedWindow(kind WindowKind, y, x Stored, b Blocked, k [3]int) {
	x.want("x", b.Len(), y)
	y.want("y", b.windows(k).Len(), y)
	in, ck := want3(b.S), want3(k)
	C.ens_blocked_window(p.ptr(), y.storage(), C.int(kind), y.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &ck[0])
}

// BlockedWindowGrad is the gradient of BlockedWindow: dy goes to the first cell
// (row major) that was the maximum, or in equal shares to all; cells outside of
// the windows get 0. x, of shape b, may be left out for the mean without Gated.
//
// Shape: dy as y of BlockedWindow → dx of shape b.
func (p *Pool) BlockedWindowGrad(kind WindowKind, dx, dy, x Stored, b Blocked, k [3]int, mode GradMode) {
	dx.want("dx", b.Len(), dx)
	dy.want("dy", b.windows(k).Len(), dx)
	if kind == Maximum || mode&Gated != 0 {
		x.want("x", b.Len(), dx)
	}
	in, ck := want3(b.S), want3(k)
	C.ens_blocked_window_grad(p.ptr(), dx.storage(), C.int(kind), dx.ptr, dy.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &ck[0],
		C.int(mode))
}

// windows is the shape of the windows k of b.
func (b Blocked) windows(k [3]int) Blocked {
	if volume(k) < 1 {
		panic("kern: a window of no cell")
	}
	for i := range b.S {
		b.S[i] /= k[i]
	}
	return b
}

// MaxBlockedFactor is the largest factor of BlockedUpsampleGrad on an axis.
const MaxBlockedFactor = 32

// BlockedUpsample is Upsample on a blocked tensor, for rows of any length.
//
// Shape: x of shape b → y of shape b with S·factor.
func (p *Pool) BlockedUpsample(y, x Stored, b Blocked, factor [3]int, wrap bool) {
	x.want("coarse", b.Len(), y)
	y.want("fine", b.times(factor).Len(), y)
	in, f := want3(b.S), want3(factor)
	C.ens_blocked_upsample(p.ptr(), y.storage(), y.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &f[0], flag(wrap))
}

// BlockedUpsampleGrad is the adjoint of BlockedUpsample. x, the coarse tensor,
// is read with Gated only.
//
// Shape: dy as y of BlockedUpsample → dx of shape b; factors up to MaxBlockedFactor.
func (p *Pool) BlockedUpsampleGrad(dx, dy, x Stored, b Blocked, factor [3]int, wrap bool, mode GradMode) {
	dx.want("coarse gradient", b.Len(), dx)
	dy.want("fine gradient", b.times(factor).Len(), dx)
	if mode&Gated != 0 {
		x.want("coarse", b.Len(), dx)
	}
	in, f := want3(b.S), want3(factor)
	C.ens_blocked_upsample_grad(p.ptr(), dx.storage(), dx.ptr, dy.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &f[0], flag(wrap),
		C.int(mode))
}

// times is b with its axes lengthened by factors.
func (b Blocked) times(factor [3]int) Blocked {
	for i, f := range factor {
		if f < 1 || f > MaxBlockedFactor {
			panic("kern: upsampling by a factor that is not served")
		}
		b.S[i] *= f
	}
	return b
}
