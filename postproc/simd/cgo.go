//go:build cgo && linux

package simd

// #cgo CFLAGS: -O3 -Wall
// #cgo LDFLAGS: -lm
// #cgo noescape simd_normal_sums
// #cgo nocallback simd_normal_sums
// #include "regression.h"
// #include <stdlib.h>
import "C"

import "unsafe"

// useISA selects an instruction set by name, "" the best one. It reports whether the CPU has it.
func useISA(name string) bool {
	var c *C.char
	if name != "" {
		c = C.CString(name)
		defer C.free(unsafe.Pointer(c))
	}
	return C.simd_use(c) == 0
}

// f32 and f64 are the addresses of the elements, for C.
func f32(x []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(x))) }

func f64(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

// normalSums calls the C kernel.
func normalSums(out, theta, season []float64, anomaly, spread, obs []float32, dates int, link Link) bool {
	C.simd_normal_sums(f64(out), f64(theta), f64(season), f32(anomaly), f32(spread), f32(obs), C.long(dates), C.long(len(season)/dates), C.int(link))
	return true
}
