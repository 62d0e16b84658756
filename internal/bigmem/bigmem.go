// Package bigmem allocates the large arrays of kernels: aligned for vector
// instructions, and on huge pages where the system gives them on request.
// Kernels that write a hundred streams at once (Winograd's transforms) miss the
// translation buffers of small pages at every line.
package bigmem

import "unsafe"

// Align is the alignment of every array in bytes: a cache line, and the widest vector.
const Align = 64

// HugePage is the size of a huge page on the systems that have them.
const HugePage = 2 << 20

// Make is a zeroed array of n elements. It is ordinary memory of Go: the
// garbage collector frees it.
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

// Bytes is the memory of x.
func Bytes[T float32 | float64 | uint16](x []T) []byte {
	var v T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), int(unsafe.Sizeof(v))*len(x))
}
