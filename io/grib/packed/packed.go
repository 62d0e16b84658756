// Package packed unpacks numbers of some bits into values, many at once. It is linked by
// ensemble-decode only.
package packed

// #cgo CFLAGS: -O3 -Wall
// #include "simple.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// Simple unpacks the values of a field of simple packing.
//
// Shape: out [p.Values].
// Errors: data too short, which grib.SimpleOf refuses before.
func Simple(out []float32, p *grib.Simple) error {
	if p.Bits < 1 || p.Bits > 32 || len(out) != p.Values || (len(out)*p.Bits+7)/8 > len(p.Data) {
		return fmt.Errorf("%d values of %d bits in %d bytes", len(out), p.Bits, len(p.Data))
	}
	if len(out) == 0 {
		return nil
	}
	binary, decimal := p.Factors()
	C.ens_simple((*C.uint8_t)(unsafe.SliceData(p.Data)), C.size_t(len(p.Data)), C.int(p.Bits),
		C.double(binary), C.double(p.Reference), C.double(decimal), (*C.float)(unsafe.SliceData(out)), C.size_t(len(out)))
	return nil
}
