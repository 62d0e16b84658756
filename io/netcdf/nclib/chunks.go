package nclib

// #cgo CFLAGS: -O3 -Wall
// #cgo LDFLAGS: -ldeflate
// #include <stdlib.h>
// #include "chunks.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/ensemble-weather/ensemble/io/cf"
)

// chunkCache holds the deflated variables of a file that were read so far. Their
// chunks are read from HDF5 as stored and inflated here, which is faster than the
// HDF5 filter pipeline.
type chunkCache struct {
	file C.hid_t
	vars map[int]*C.ens_chunks // by position in Header.Vars; nil for variables that netCDF-C reads
}

// open returns the chunks of a variable. It returns nil if the variable is not chunked
// and deflated. The file is opened a second time by HDF5 when the first variable needs
// it; netCDF-C has it open too, both read-only. The answer is kept for each variable,
// the negative one as nil, so that a file of many small reads asks HDF5 once.
//
// The C side accepts only what it decodes with the same result as netCDF-C: chunks with
// deflate, optionally after shuffle; else it returns nil.
func (c *chunkCache) open(path string, index int, v *cf.Var) *C.ens_chunks {
	if c.vars == nil {
		name := C.CString(path)
		defer C.free(unsafe.Pointer(name))
		c.file, c.vars = C.ens_hdf5_open(name), map[int]*C.ens_chunks{}
	}
	set, known := c.vars[index]
	if !known && c.file >= 0 {
		name := C.CString("/" + v.Path())
		defer C.free(unsafe.Pointer(name))
		set = C.ens_chunks_open(c.file, name)
		c.vars[index] = set
	}
	return set
}

// close frees all chunks and closes the file. Chunks refer to the file, so they are
// freed first. The cache can be used again afterwards.
func (c *chunkCache) close() {
	if c.vars == nil {
		return
	}
	for _, set := range c.vars {
		C.ens_chunks_close(set)
	}
	if c.file >= 0 {
		C.H5Fclose(c.file)
	}
	c.vars = nil
}

// Float reads a slab into dst.
//
// Two paths give the same values: chunks inflated here and unpacked in C while they are
// copied, if the packing is linear; else Double, rounded to float32. A slab that the
// first path rejects (status above 0) takes the second, and a chunk that cannot be
// inflated is an error of both.
//
// Unit: as the attributes state, after scale_factor and add_offset.
// Missing: NaN.
// Memory: dst belongs to the caller and has exactly as many values as the slab; inflated
// chunks stay in the cache until Close.
// Errors: a slab outside of the variable; what netCDF-C reports.
// Source: HDF5 file format specification 3.0, section IV.A.2.l (filter pipeline
// message); RFC 1950 (zlib).
func (f *File) Float(dst []float32, s cf.Slab) error {
	start, count, err := f.slabBounds(s, len(dst))
	if err != nil {
		return err
	}
	v, rules := &f.header.Vars[s.Var], &f.vars[s.Var].packing
	if rules.Err != nil {
		return rules.Err
	}
	if set := f.chunks.open(f.path, s.Var, v); set != nil && rules.Linear() && len(rules.Missing) <= C.ENS_MAX_MISSING {
		r := C.ens_rules{n_missing: C.int(len(rules.Missing)), lo: C.double(rules.ValidMin), hi: C.double(rules.ValidMax),
			scale: C.double(rules.Scale), shift: C.double(rules.Offset), add: C.double(rules.UnsignedOffset)}
		for i, m := range rules.Missing {
			r.missing[i] = C.double(m)
		}
		switch C.ens_chunks_read(set, C.int(len(s.Start)), &start[0], &count[0], &r, (*C.float)(unsafe.SliceData(dst))) {
		case 0:
			return nil
		case -1:
			return fmt.Errorf("%s: a chunk of slab %v %v cannot be inflated", v.Path(), s.Start, s.Count)
		}
	}
	if cap(f.scratch) < len(dst) {
		f.scratch = make([]float64, len(dst))
	}
	wide := f.scratch[:len(dst)]
	if err := f.Double(wide, s); err != nil {
		return err
	}
	for i, x := range wide {
		dst[i] = float32(x)
	}
	return nil
}
