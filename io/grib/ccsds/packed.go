// Package ccsds decodes numbers that are coded (CCSDS). It is linked by ensemble-decode
// only.
package ccsds

// #cgo CFLAGS: -O3 -Wall
// #cgo LDFLAGS: -laec
// #include "ccsds.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/simplepack"
)

// Unpack unpacks the values of a field of simple packing, whose numbers may be coded.
//
// Shape: out [p.Values].
// Errors: data too short, which grib.SimpleOf refuses before unless they are coded; a code
// that cannot be read.
func Unpack(out []float32, p *grib.SimplePacking) error {
	if p.CCSDS == nil {
		return simplepack.Unpack(out, p, simplepack.AllValues(p))
	}
	if p.Bits < 1 || p.Bits > 32 || len(out) != p.Count {
		return fmt.Errorf("%d coded values of %d bits for %d", p.Count, p.Bits, len(out))
	}
	if len(out) == 0 {
		return nil
	}
	data, bytes := (*C.uint8_t)(unsafe.SliceData(p.Data)), C.size_t(len(p.Data))
	if data == nil {
		return fmt.Errorf("%d coded values in no bytes", len(out))
	}
	binary, decimal := p.ScaleFactors()
	to, n := (*C.float)(unsafe.SliceData(out)), C.size_t(len(out))
	c := p.CCSDS
	var done C.size_t
	status := C.ens_ccsds(data, bytes, C.int(p.Bits), C.int(c.Flags), C.int(c.BlockSize), C.int(c.ReferenceInterval),
		C.double(binary), C.double(p.Reference), C.double(decimal), to, n, &done)
	if status != 0 {
		return fmt.Errorf("CCSDS code not readable (libaec's status %d): %d values of %d bits in blocks of %d, reference every %d blocks", int(status), len(out), p.Bits, c.BlockSize, c.ReferenceInterval)
	}
	if done != n {
		return fmt.Errorf("the CCSDS code ends after %d of %d values", int(done), len(out))
	}
	return nil
}
