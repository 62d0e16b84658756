//go:build cgo && linux

package simd

/*
#cgo CFLAGS: -O3 -Wall
#cgo LDFLAGS: -lm
#cgo noescape simd_crps
#cgo nocallback simd_crps
#cgo noescape simd_mean_std
#cgo nocallback simd_mean_std
#cgo noescape simd_quantiles
#cgo nocallback simd_quantiles
#cgo noescape simd_normal_sums
#cgo nocallback simd_normal_sums
#include "simd.h"
#include <stdlib.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// vector is the number of points that the widest vectors hold: kernels want as many.
const vector = 16

// ISA is the instruction set of the kernels in use: avx512, avx2 or base; "" without.
func ISA() string { return C.GoString(C.simd_isa_name()) }

// useISA forces an instruction set; false if this machine lacks it.
func useISA(name string) bool {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	return C.simd_isa_use(c) == 0
}

func suits(m, n int) bool { return m <= Most && n >= vector }

func f32(x []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(x))) }

// fields lends fields to one call: the list of pointers and what keeps them in place.
func fields(pin *runtime.Pinner, x [][]float32) **C.float {
	list := make([]*C.float, len(x))
	for i, f := range x {
		list[i] = f32(f)
		pin.Pin(list[i])
	}
	return unsafe.SliceData(list)
}

func crpsVectors(dst []float32, x [][]float32, y []float32, pair float32) bool {
	if !suits(len(x), len(y)) {
		return false
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	C.simd_crps(f32(dst), fields(&pin, x), C.long(len(x)), f32(y), C.long(len(y)), C.float(pair))
	return true
}

func meanStdVectors(mean, std []float32, x [][]float32, inverse float32) bool {
	if !suits(len(x), len(mean)) {
		return false
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	C.simd_mean_std(f32(mean), f32(std), fields(&pin, x), C.long(len(x)), C.long(len(mean)), C.float(inverse))
	return true
}

func quantilesVectors(dst, x [][]float32, at []int, part []float32) bool {
	if !suits(len(x), len(dst[0])) {
		return false
	}
	places := make([]C.long, len(at))
	for i, v := range at {
		places[i] = C.long(v)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	C.simd_quantiles(fields(&pin, dst), fields(&pin, x), C.long(len(x)), C.long(len(dst[0])), unsafe.SliceData(places), f32(part), C.long(len(at)))
	return true
}

func f64(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

func normalSumsVectors(out, theta, season []float64, anomaly, spread, obs []float32, dates int, link Link) bool {
	C.simd_normal_sums(f64(out), f64(theta), f64(season), f32(anomaly), f32(spread), f32(obs), C.long(dates), C.long(len(season)/dates), C.int(link))
	return true
}
