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

// WindowKind is the reduction over a window.
type WindowKind int

// The reductions.
const (
	Maximum WindowKind = iota
	Mean
)

// BlockedWindow computes the maximum or the mean over disjoint windows of size k. Cells
// beyond the last whole window are ignored.
//
// Shape: x of shape b → y of shape b with S = ⌊S/k⌋.
// Missing: NaN in a window gives NaN.
// Source: torch.nn.MaxPool3d and torch.nn.AvgPool3d without padding; op.MaxPool,
// op.AvgPool.
func (p *Pool) BlockedWindow(kind WindowKind, y, x Stored, b Blocked, k [3]int) {
	x.want("x", b.Len(), y)
	y.want("y", b.windows(k).Len(), y)
	in, ck := want3(b.S), want3(k)
	C.ens_blocked_window(p.ptr(), y.storage(), C.int(kind), y.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &ck[0])
}

// BlockedWindowGrad is the gradient of BlockedWindow. dy goes to the first maximum of
// the window (in memory order), or in equal shares to all of its cells. Cells outside
// of windows get 0. x, of shape b, is not read for a mean without Gated.
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

// windows returns the shape of b reduced over windows k.
func (b Blocked) windows(k [3]int) Blocked {
	if volume(k) < 1 {
		panic("kern: a window of no cell")
	}
	for i := range b.S {
		b.S[i] /= k[i]
	}
	return b
}

// MaxBlockedFactor is the largest interpolation factor of an axis.
const MaxBlockedFactor = 32

// BlockedUpsample is Upsample of a blocked tensor, for rows of any length.
//
// Shape: x of shape b → y of shape b with S·factor.
// Source: torch.nn.Upsample(mode="trilinear", align_corners=False); op.Upsample.
func (p *Pool) BlockedUpsample(y, x Stored, b Blocked, factor [3]int, wrap bool) {
	x.want("coarse", b.Len(), y)
	y.want("fine", b.times(factor).Len(), y)
	in, f := want3(b.S), want3(factor)
	C.ens_blocked_upsample(p.ptr(), y.storage(), y.ptr, x.ptr, C.long(b.N*b.Blocks()), &in[0], &f[0], flag(wrap))
}

// BlockedUpsampleGrad is the adjoint of BlockedUpsample. x, the coarse tensor, is read
// with Gated only.
//
// Shape: dy as y of BlockedUpsample → dx of shape b.
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

// times returns b with its axes multiplied by factors.
func (b Blocked) times(factor [3]int) Blocked {
	for i, f := range factor {
		if f < 1 || f > MaxBlockedFactor {
			panic("kern: upsampling by a factor below 1 or above MaxBlockedFactor")
		}
		b.S[i] *= f
	}
	return b
}
