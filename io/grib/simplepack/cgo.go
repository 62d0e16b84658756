//go:build cgo

package simplepack

// #cgo CFLAGS: -O3 -Wall
// #cgo noescape ens_numbers
// #cgo nocallback ens_numbers
// #include "numbers.h"
import "C"

import (
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// unpack decodes a rectangle with the C kernel.
func unpack(out []float32, p *grib.SimplePacking, r Rect) {
	binary, decimal := p.ScaleFactors()
	data := p.Data[r.First*p.Bits/8:]
	C.ens_numbers((*C.uint8_t)(unsafe.SliceData(data)), C.size_t(len(data)), C.int(p.Bits), C.double(binary), C.double(p.Reference), C.double(decimal),
		(*C.float)(unsafe.Pointer(&out[r.To])), C.size_t(r.Rows), C.size_t(r.Columns), C.size_t(r.Stride), C.ptrdiff_t(r.Step))
}
