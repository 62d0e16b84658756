//go:build cgo && linux

package kern

/*
#cgo noescape ens_blocked_from
#cgo nocallback ens_blocked_from
#cgo noescape ens_blocked_to
#cgo nocallback ens_blocked_to
#cgo noescape ens_blocked_move
#cgo nocallback ens_blocked_move
#cgo noescape ens_blocked_add
#cgo nocallback ens_blocked_add
#cgo noescape ens_blocked_mul
#cgo nocallback ens_blocked_mul
#cgo noescape ens_convert
#cgo nocallback ens_convert
#include "kern.h"
*/
import "C"

import "unsafe"

// Blocked is the shape of a blocked tensor: the value [N C D H W], stored as
// [N][⌈C/16⌉][D][H][W][16]. The padding channels, from C to the next multiple of 16,
// are zero. Kernels rely on that and keep them zero.
//
// Blocks of a tensor with N = 1 are contiguous: any kernel can work in place on a range
// of channels that begins at a multiple of 16.
//
// Source: oneDNN, memory formats: this is its nCdhw16c, so both libraries share tensors
// without a copy.
type Blocked struct {
	N, C int    // samples and channels
	S    [3]int // D, H, W
}

// Blocks returns the number of blocks of channels.
func (b Blocked) Blocks() int { return blocks(b.C) }

// Len returns the number of values in memory, padding included.
func (b Blocked) Len() int { return b.N * b.Blocks() * b.Cells() * Block }

// Plain returns the number of values without padding.
func (b Blocked) Plain() int { return b.N * b.C * b.Cells() }

// Cells returns the number of grid points.
func (b Blocked) Cells() int { return b.S[0] * b.S[1] * b.S[2] }

// GradMode defines how a gradient is stored. Modes can be combined.
type GradMode int

// The modes, numbered as in kern.h.
const (
	Accumulate GradMode = 1 << iota // add to the values in memory
	Gated                           // then 0 where x, the result of a ReLU, is not positive
)

// Stored holds the values of a blocked tensor as float32 or as bfloat16, the upper half
// of a float32. Kernels compute in float32 and round once, to nearest, ties to even;
// NaN stays NaN. All tensors of a call have the same storage type, unless stated
// otherwise. The zero value is an absent tensor.
type Stored struct {
	ptr unsafe.Pointer
	n   int
	b16 bool
}

// Float32 returns values stored as float32.
func Float32(x []float32) Stored { return Stored{unsafe.Pointer(unsafe.SliceData(x)), len(x), false} }

// BFloat16 returns values stored as bfloat16.
func BFloat16(x []uint16) Stored { return Stored{unsafe.Pointer(unsafe.SliceData(x)), len(x), true} }

// Len returns the number of values.
func (s Stored) Len() int { return s.n }

// Part returns the values from lo to hi, hi not included.
func (s Stored) Part(lo, hi int) Stored {
	if lo < 0 || lo > hi || hi > s.n {
		panic("kern: Part beyond the values")
	}
	size := 4
	if s.b16 {
		size = 2
	}
	return Stored{unsafe.Add(s.ptr, lo*size), hi - lo, s.b16}
}

// none reports whether the tensor is absent.
func (s Stored) none() bool { return s == Stored{} }

// storage returns the argument b16 of the C functions.
func (s Stored) storage() C.int { return flag(s.b16) }

// flag returns a bool as an argument of C.
func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// want panics unless s has n values in the storage type of like.
func (s Stored) want(what string, n int, like Stored) {
	want(what, s.n, n)
	if s.b16 != like.b16 {
		panic("kern: " + what + " is stored as another type")
	}
}

// wantIfSet is want for an optional tensor.
func (s Stored) wantIfSet(what string, n int, like Stored) {
	if !s.none() {
		s.want(what, n, like)
	}
}

// Block copies the plain tensor x to channels c0 to c1 of the blocked y. c0 must be a
// multiple of 16, and so must c1 unless it is the number of channels of y.
//
// Shape: x [N c1−c0 D H W] → y of shape b.
func (p *Pool) Block(y Stored, b Blocked, x []float32, c0, c1 int) {
	b.channels(c0, c1-c0)
	if c0%Block != 0 || c1%Block != 0 && c1 != b.C {
		panic("kern: Block of channels that share a block with others")
	}
	y.want("y", b.Len(), y)
	want("x", len(x), b.N*(c1-c0)*b.Cells())
	C.ens_blocked_from(p.ptr(), y.storage(), y.ptr, f32(x), C.long(b.N), C.long(c1-c0), C.long(b.Cells()),
		C.long(b.Blocks()), C.long(c0/Block))
}

// Unblock copies channels c0 to c1 of the blocked x to the plain tensor y. c0 must be a
// multiple of 16.
//
// Shape: x of shape b → y [N c1−c0 D H W].
func (p *Pool) Unblock(y []float32, x Stored, b Blocked, c0, c1 int) {
	b.channels(c0, c1-c0)
	if c0%Block != 0 {
		panic("kern: Unblock of channels that begin inside a block")
	}
	x.want("x", b.Len(), x)
	want("y", len(y), b.N*(c1-c0)*b.Cells())
	C.ens_blocked_to(p.ptr(), x.storage(), f32(y), x.ptr, C.long(b.N), C.long(c1-c0), C.long(b.Cells()),
		C.long(b.Blocks()), C.long(c0/Block))
}

// channels panics unless c0 to c0+n are channels of b.
func (b Blocked) channels(c0, n int) {
	if c0 < 0 || n < 0 || c0+n > b.C {
		panic("kern: channels beyond the blocked tensor")
	}
}

// CopyChannels copies channels xc to xc+n of x to channels yc to yc+n of y, for
// concatenation and slices. Other channels of y keep their values; if yc+n is the
// number of channels of y, its padding is cleared. It is fastest if both ranges begin
// at multiples of 16.
//
// Shape: x of shape xb, y of shape yb, which differ in C only.
func (p *Pool) CopyChannels(y Stored, yb Blocked, yc int, x Stored, xb Blocked, xc, n int) {
	p.moveChannels(y, yb, yc, x, xb, xc, n, 0)
}

// AddChannels adds the channels instead of copying them, for the gradients of
// concatenation and slices.
func (p *Pool) AddChannels(y Stored, yb Blocked, yc int, x Stored, xb Blocked, xc, n int) {
	p.moveChannels(y, yb, yc, x, xb, xc, n, 1)
}

// moveChannels copies or adds channels.
func (p *Pool) moveChannels(y Stored, yb Blocked, yc int, x Stored, xb Blocked, xc, n int, add C.int) {
	if yb.N != xb.N || yb.S != xb.S {
		panic("kern: channels move between tensors that differ in more than their number")
	}
	yb.channels(yc, n)
	xb.channels(xc, n)
	y.want("y", yb.Len(), y)
	x.want("x", xb.Len(), y)
	if n == 0 {
		return
	}
	C.ens_blocked_move(p.ptr(), y.storage(), y.ptr, C.long(yb.C), C.long(yc), x.ptr, C.long(xb.C), C.long(xc),
		C.long(yb.N), C.long(n), C.long(yb.Cells()), add)
}

// Convert copies x to y, which has the other storage type.
func (p *Pool) Convert(y, x Stored) {
	want("x", x.n, y.n)
	if x.b16 == y.b16 {
		panic("kern: Convert between tensors of the same type")
	}
	C.ens_convert(p.ptr(), y.storage(), y.ptr, x.ptr, C.long(y.n))
}

// StoredSum describes AddStored: A + B where Gate > 0, else 0; or max(A + B, 0) with
// ReLU. B and Gate are optional. Gate and ReLU exclude each other. A and Gate alone are
// the gradient of a ReLU whose result is Gate.
type StoredSum struct {
	A, B, Gate Stored
	ReLU       bool
}

// AddStored computes the sum that s describes, elementwise. z may alias any argument.
// Zeros give zeros, so padding stays zero. ReLU keeps NaN.
func (p *Pool) AddStored(z Stored, s StoredSum) {
	s.A.want("a", z.n, z)
	s.B.wantIfSet("b", z.n, z)
	s.Gate.wantIfSet("gate", z.n, z)
	if s.ReLU && !s.Gate.none() {
		panic("kern: AddStored with both a gate and a ReLU")
	}
	C.ens_blocked_add(p.ptr(), z.storage(), z.ptr, s.A.ptr, s.B.ptr, s.Gate.ptr, flag(s.ReLU), C.long(z.n))
}

// MulStored computes z[i] = a[i]·b[i]. z may alias a or b.
func (p *Pool) MulStored(z, a, b Stored) {
	a.want("a", z.n, z)
	b.want("b", z.n, z)
	C.ens_blocked_mul(p.ptr(), z.storage(), z.ptr, a.ptr, b.ptr, C.long(z.n))
}
