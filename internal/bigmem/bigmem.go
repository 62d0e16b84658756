// Package bigmem allocates large arrays for kernels: aligned for vector
// instructions, and on huge pages if the system grants them. Kernels that write to
// a hundred streams at once, such as Winograd transforms, would miss the TLB for
// small pages on every line.
package bigmem

import "unsafe"

// Align is the alignment of every array: a cache line, and the widest vector
// register.
//
// Unit: bytes.
const Align = 64

// HugePage is the size of a huge page.
//
// Unit: bytes.
const HugePage = 2 << 20

// Make returns a zeroed array of n elements. It is garbage-collected Go memory.
//
// Memory: up to HugePage more than the array, for alignment.
func Make[T float32 | float64](n int) []T {
	size := int(unsafe.Sizeof(T(0)))
	align := Align
	if n*size >= 2*HugePage {
		align = HugePage
	}
	buf := make([]T, n+align/size)
	skip := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(buf))) % uintptr(align)); r != 0 {
		skip = (align - r) / size
	}
	buf = buf[skip : skip+n : skip+n]
	if whole := n * size / HugePage * HugePage; align == HugePage && whole > 0 {
		advise(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(buf))), whole))
	}
	return buf
}

// Bytes returns the memory of x as bytes.
func Bytes[T float32 | float64 | uint16](x []T) []byte {
	var v T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), int(unsafe.Sizeof(v))*len(x))
}

// Float32s returns memory as float32, without a copy, in the byte order of the machine.
func Float32s(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
