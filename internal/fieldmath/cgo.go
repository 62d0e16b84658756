//go:build cgo

package fieldmath

// #cgo CFLAGS: -O3 -Wall
// #cgo LDFLAGS: -lm
// #cgo noescape ens_mean_std
// #cgo nocallback ens_mean_std
// #cgo noescape ens_standardise
// #cgo nocallback ens_standardise
// #cgo noescape ens_scale
// #cgo nocallback ens_scale
// #cgo noescape ens_count
// #cgo nocallback ens_count
// #include "kernels.h"
import "C"

import (
	"runtime"
	"unsafe"
)

func floats(x []float32) *C.float { return (*C.float)(unsafe.Pointer(unsafe.SliceData(x))) }

func doubles(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

func meanStd(mean, std []float32, fields [][]float32, divisor float64) {
	var pin runtime.Pinner
	defer pin.Unpin()
	list := make([]*C.float, len(fields))
	for i, f := range fields {
		list[i] = floats(f)
		if list[i] != nil {
			pin.Pin(list[i])
		}
	}
	C.ens_mean_std(floats(mean), floats(std), unsafe.SliceData(list), C.size_t(len(list)), C.size_t(len(mean)), C.double(divisor))
}

func standardise(dst, src []float32, mean, scale []float64) {
	C.ens_standardise(floats(dst), floats(src), doubles(mean), doubles(scale), C.size_t(len(dst)))
}

func scale(dst, src []float32, r float32) {
	C.ens_scale(floats(dst), floats(src), C.float(r), C.size_t(len(dst)))
}

func countStats(t *Stats, l *[lanes]lane, values []float32) {
	var c C.ens_tally
	for k, x := range l {
		c.min[k], c.max[k], c.hash[k] = C.double(x.min), C.double(x.max), C.uint64_t(x.hash)
	}
	C.ens_count(&c, floats(values), C.size_t(len(values)))
	for k := range l {
		l[k] = lane{float64(c.min[k]), float64(c.max[k]), float64(c.sum[k]), float64(c.squares[k]), uint64(c.hash[k])}
	}
	t.Missing, t.Infinite = int(c.missing), int(c.infinite)
}
