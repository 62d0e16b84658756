// Package packed decodes numbers that are coded (CCSDS). It is linked by ensemble-decode
// only.
package packed

// #cgo CFLAGS: -O3 -Wall
// #cgo LDFLAGS: -laec
// #include "ccsds.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/grib/numbers"
)

// Unpack unpacks the values of a field of simple packing, whose numbers may be coded.
//
// Shape: out [p.Values].
// Errors: data too short, which grib.SimpleOf refuses before unless they are coded; a code
// that cannot be read.
func Unpack(out []float32, p *grib.Simple) error {
	if p.Code == nil {
		return numbers.Unpack(out, p, numbers.Whole(p))
	}
	if p.Bits < 1 || p.Bits > 32 || len(out) != p.Values {
		return fmt.Errorf("%d coded values of %d bits for %d", p.Values, p.Bits, len(out))
	}
	if len(out) == 0 {
		return nil
	}
	data, bytes := (*C.uint8_t)(unsafe.SliceData(p.Data)), C.size_t(len(p.Data))
	if data == nil {
		return fmt.Errorf("%d coded values in no bytes", len(out))
	}
	binary, decimal := p.Factors()
	to, n := (*C.float)(unsafe.SliceData(out)), C.size_t(len(out))
	c := p.Code
	var done C.size_t
	status := C.ens_ccsds(data, bytes, C.int(p.Bits), C.int(c.Flags), C.int(c.Block), C.int(c.Interval),
		C.double(binary), C.double(p.Reference), C.double(decimal), to, n, &done)
	if status != 0 {
		return fmt.Errorf("CCSDS code not readable (libaec's status %d): %d values of %d bits in blocks of %d, reference every %d blocks", int(status), len(out), p.Bits, c.Block, c.Interval)
	}
	if done != n {
		return fmt.Errorf("the CCSDS code ends after %d of %d values", int(done), len(out))
	}
	return nil
}
