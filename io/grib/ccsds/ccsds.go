// Package ccsds decodes simple packing with lossless CCSDS compression, through
// libaec. Only ensemble-decode links it.
//
// Source: FM 92 GRIB2, templates 5.42 and 7.42; CCSDS 121.0-B-3.
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

// Unpack decodes the values of a field with simple packing, compressed or not.
//
// Shape: out [p.Count].
// Errors: too little data, which grib.ParseSimplePacking rejects earlier for
// uncompressed values; compressed data that libaec cannot decode.
func Unpack(out []float32, p *grib.SimplePacking) error {
	if p.CCSDS == nil {
		return simplepack.Unpack(out, p, simplepack.AllValues(p))
	}
	if p.Bits < 1 || p.Bits > 32 || len(out) != p.Count {
		return fmt.Errorf("%d CCSDS values of %d bits for %d points", p.Count, p.Bits, len(out))
	}
	if len(out) == 0 {
		return nil
	}
	data, bytes := (*C.uint8_t)(unsafe.SliceData(p.Data)), C.size_t(len(p.Data))
	if data == nil {
		return fmt.Errorf("%d CCSDS values in 0 bytes", len(out))
	}
	binary, decimal := p.ScaleFactors()
	to, n := (*C.float)(unsafe.SliceData(out)), C.size_t(len(out))
	c := p.CCSDS
	var done C.size_t
	status := C.ens_ccsds(data, bytes, C.int(p.Bits), C.int(c.Flags), C.int(c.BlockSize), C.int(c.ReferenceInterval),
		C.double(binary), C.double(p.Reference), C.double(decimal), to, n, &done)
	if status != 0 {
		return fmt.Errorf("CCSDS data cannot be decoded (libaec status %d): %d values of %d bits, block size %d, reference sample interval %d", int(status), len(out), p.Bits, c.BlockSize, c.ReferenceInterval)
	}
	if done != n {
		return fmt.Errorf("the CCSDS data end after %d of %d values", int(done), len(out))
	}
	return nil
}
