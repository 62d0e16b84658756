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

// Blocked is the shape of a blocked tensor: the value [N C D H W] stored as
// [N][⌈C/16⌉][D][H][W][16]. The lanes beyond channel C (padding) are zero:
// kernels rely on it and keep it so.
//
// Whole blocks of a tensor with N = 1 are contiguous: there any kernel can work
// in place on a range of channels that begins at a multiple of 16.
type Blocked struct {
	N, C int
	S    [3]int // D, H, W
}

// Blocks is the number of blocks of channels.
func (b Blocked) Blocks() int { return blocks(b.C) }

// Len is the number of values stored, padding included.
func (b Blocked) Len() int { return b.N * b.Blocks() * b.Cells() * Block }

// Plain is the number of values of the tensor itself.
func (b Blocked) Plain() int { return b.N * b.C * b.Cells() }

// Cells is the number of places of one channel.
func (b Blocked) Cells() int { return b.S[0] * b.S[1] * b.S[2] }

// GradMode says how a gradient is stored; the modes combine.
type GradMode int

// The modes; their numbers are those of kern.h.
const (
	Accumulate GradMode = 1 << iota // add to what is there
	Gated                           // then 0 where x, the result of a ReLU, is not positive
)

// Stored are the values of a big tensor as float32 or as bfloat16, the upper
// half of a float32. Kernels compute in float32 and round once, to nearest,
// ties to even; NaN stays NaN. The tensors of one call share their storage. The
// zero value stands for none.
type Stored struct {
	ptr unsafe.Pointer
	n   int
	b16 bool
}

// Float32 are values stored as float32.
func Float32(x []float32) Stored { return Stored{unsafe.Pointer(unsafe.SliceData(x)), len(x), false} }

// BFloat16 are values stored as bfloat16.
func BFloat16(x []uint16) Stored { return Stored{unsafe.Pointer(unsafe.SliceData(x)), len(x), true} }

// Len is the number of values.
func (s Stored) Len() int { return s.n }

// Part are the values from lo to before hi.
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

func (s Stored) none() bool { return s == Stored{} }

// storage is the argument b16 of the kernels.
func (s Stored) storage() C.int { return flag(s.b16) }

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// want panics unless s has n values in the storage of like.
func (s Stored) want(what string, n int, like Stored) {
	want(what, s.n, n)
	if s.b16 != like.b16 {
		panic("kern: " + what + " is stored as another type")
	}
}

// wantIfSet is want for a tensor that may be left out.
func (s Stored) wantIfSet(what string, n int, like Stored) {
	if !s.none() {
		s.want(what, n, like)
	}
}

// Block writes the plain tensor x as channels c0 to c1 of the blocked y.
// c0 is a multiple of 16, and so is c1 unless it is the last channel of y.
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

// Unblock writes channels c0 to c1 of the blocked x as the plain tensor y.
// c0 is a multiple of 16.
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

// channels panics unless n channels from c0 are channels of b.
func (b Blocked) channels(c0, n int) {
	if c0 < 0 || n < 0 || c0+n > b.C {
		panic("kern: channels beyond the blocked tensor")
	}
}

// CopyChannels writes channels xc to xc+n of x as channels yc to yc+n of y and
// leaves the others as they are: concatenation and slices. Where n reaches the
// last channel of y the padding is cleared. Whole blocks that stay whole go
// fastest.
//
// Shape: x of shape xb, y of shape yb, which differ in C alone.
func (p *Pool) CopyChannels(y Stored, yb Blocked, yc int, x Stored, xb Blocked, xc, n int) {
	p.moveChannels(y, yb, yc, x, xb, xc, n, 0)
}

// AddChannels adds where CopyChannels copies: their gradients.
func (p *Pool) AddChannels(y Stored, yb Blocked, yc int, x Stored, xb Blocked, xc, n int) {
	p.moveChannels(y, yb, yc, x, xb, xc, n, 1)
}

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

// Convert writes x as y, which is stored as the other type.
func (p *Pool) Convert(y, x Stored) {
	want("x", x.n, y.n)
	if x.b16 == y.b16 {
		panic("kern: Convert between tensors of the same type")
	}
	C.ens_convert(p.ptr(), y.storage(), y.ptr, x.ptr, C.long(y.n))
}

// StoredSum is what AddStored computes: A + B where Gate > 0 and 0 elsewhere,
// or max(A + B, 0) with ReLU. B and Gate may be left out; Gate and ReLU
// exclude each other. So A and Gate alone are the gradient of a ReLU from its
// result.
type StoredSum struct {
	A, B, Gate Stored
	ReLU       bool
}

// AddStored computes z[i] as s says. z may alias any argument. Zeros stay
// zeros, so it serves blocked tensors as it serves plain ones. ReLU keeps NaN.
func (p *Pool) AddStored(z Stored, s StoredSum) {
	s.A.want("a", z.n, z)
	s.B.wantIfSet("b", z.n, z)
	s.Gate.wantIfSet("gate", z.n, z)
	if s.ReLU && !s.Gate.none() {
		panic("kern: AddStored with both a gate and a ReLU")
	}
	C.ens_blocked_add(p.ptr(), z.storage(), z.ptr, s.A.ptr, s.B.ptr, s.Gate.ptr, flag(s.ReLU), C.long(z.n))
}

// MulStored computes z[i] = a[i]·b[i]. z may alias a or b. Zeros stay zeros.
func (p *Pool) MulStored(z, a, b Stored) {
	a.want("a", z.n, z)
	b.want("b", z.n, z)
	C.ens_blocked_mul(p.ptr(), z.storage(), z.ptr, a.ptr, b.ptr, C.long(z.n))
}
