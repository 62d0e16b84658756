package nclib

// #cgo LDFLAGS: -rdynamic -ldl
// #include <netcdf.h>
import "C"

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"github.com/fhs/go-netcdf/netcdf"
	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// ncTypes gives the external types of netCDF-C for the types of a request.
var ncTypes = map[encode.Type]netcdf.Type{encode.Float: netcdf.FLOAT, encode.Double: netcdf.DOUBLE, encode.Int: netcdf.INT,
	encode.Short: netcdf.SHORT, encode.Char: netcdf.CHAR}

// Write creates the file at path that f describes. payload holds the values. The file has the
// NetCDF-4 format with the classic data model: compressed chunks, but no groups, no
// strings and one unlimited dimension at most, so that CDO, NCO and R read it.
//
// Definitions precede values, as the classic model requires. The path is a temporary
// file of the caller, who renames it: a file after an error is incomplete and has to be
// removed.
//
// Memory: values are written from payload without a copy. Payload is shared memory that is mapped as a whole: the pages of
// the values of a variable are given back when they are written, so that payload and a file in memory together need hardly more than the larger one.
// Errors: the first call that netCDF-C rejects, with the name of the object.
func Write(path string, f *encode.NetCDF, payload []byte) (err error) {
	ds, err := netcdf.CreateFile(path, netcdf.CLOBBER|netcdf.NETCDF4|netcdf.CLASSIC_MODEL)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	defer func() {
		if e := ds.Close(); err == nil && e != nil {
			err = fmt.Errorf("close: %w", e)
		}
	}()
	// All variables are written completely, so filling them first is not necessary.
	if err := status(C.nc_set_fill(C.int(ds), C.NC_NOFILL, nil)); err != nil {
		return fmt.Errorf("disable prefilling: %w", err)
	}
	dims := map[string]netcdf.Dim{}
	sizes := map[string]int{}
	for _, d := range f.Dimensions {
		if dims[d.Name], err = ds.AddDim(d.Name, uint64(d.Size)); err != nil {
			return fmt.Errorf("dimension %s: %w", d.Name, err)
		}
		sizes[d.Name] = d.Size
	}
	for _, a := range f.Attributes {
		if err := writeAttribute(ds.Attr(a.Name), a); err != nil {
			return fmt.Errorf("attribute %s: %w", a.Name, err)
		}
	}
	vars := make([]netcdf.Var, len(f.Variables))
	for i, v := range f.Variables {
		if vars[i], err = defineVariable(ds, dims, v); err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, err)
		}
	}
	if err := ds.EndDef(); err != nil {
		return fmt.Errorf("end of definitions: %w", err)
	}
	for i, v := range f.Variables {
		n := 1
		for _, d := range v.Dimensions {
			n *= sizes[d]
		}
		if err := writeValues(vars[i], v, n, payload); err != nil {
			return fmt.Errorf("values of %s: %w", v.Name, err)
		}
		if !usedBy(f.Variables[i+1:], v.Values) {
			release(v.Values, payload)
		}
	}
	return nil
}

// usedBy reports whether a variable has values in a block.
func usedBy(vars []encode.Variable, b encode.Block) bool {
	return slices.ContainsFunc(vars, func(v encode.Variable) bool {
		return v.Values.Offset < b.Offset+b.Length && b.Offset < v.Values.Offset+v.Values.Length
	})
}

// release releases the whole pages of a block. Where payload is not shared memory, they stay.
func release(b encode.Block, payload []byte) {
	page := os.Getpagesize()
	from, to := (b.Offset+page-1)/page*page, (b.Offset+b.Length)/page*page
	if from < to {
		_ = unix.Madvise(payload[from:to], unix.MADV_REMOVE)
	}
}

// defineVariable adds a variable with its storage and attributes. Dimensions are in the
// order of the request, the last one fastest. Chunks and deflate apply only to variables
// that state chunks: a scalar cannot be compressed. Deflate is preceded by shuffle,
// which orders the bytes of numbers by significance, so that those of exponents follow
// each other.
//
// Source: NUG, "Chunking" and "Compression".
func defineVariable(ds netcdf.Dataset, dims map[string]netcdf.Dim, v encode.Variable) (netcdf.Var, error) {
	var over []netcdf.Dim
	for _, name := range v.Dimensions {
		d, ok := dims[name]
		if !ok {
			return netcdf.Var{}, fmt.Errorf("unknown dimension %s", name)
		}
		over = append(over, d)
	}
	t, ok := ncTypes[v.Type]
	if !ok {
		return netcdf.Var{}, fmt.Errorf("unknown type %q", v.Type)
	}
	nv, err := ds.AddVar(v.Name, t, over)
	if err != nil {
		return nv, err
	}
	if v.Chunks != nil {
		if len(v.Chunks) != len(v.Dimensions) {
			return nv, fmt.Errorf("%d chunk lengths for %d dimensions", len(v.Chunks), len(v.Dimensions))
		}
		if err := setChunks(ds, v); err != nil {
			return nv, fmt.Errorf("chunks %v: %w", v.Chunks, err)
		}
		if v.Deflate > 0 {
			if err := nv.SetCompression(true, true, v.Deflate); err != nil {
				return nv, fmt.Errorf("compression: %w", err)
			}
		}
	}
	for _, a := range v.Attributes {
		if err := writeAttribute(nv.Attr(a.Name), a); err != nil {
			return nv, fmt.Errorf("attribute %s: %w", a.Name, err)
		}
	}
	return nv, nil
}

// setChunks calls nc_def_var_chunking, which go-netcdf lacks. The ID of the variable is
// found by name because go-netcdf does not export it. netCDF-C rejects a chunk that is
// longer than its fixed dimension (NC_EBADCHUNK).
func setChunks(ds netcdf.Dataset, v encode.Variable) error {
	name := append([]byte(v.Name), 0)
	var id C.int
	if err := status(C.nc_inq_varid(C.int(ds), (*C.char)(unsafe.Pointer(&name[0])), &id)); err != nil {
		return err
	}
	sizes := make([]C.size_t, len(v.Chunks))
	for i, n := range v.Chunks {
		sizes[i] = C.size_t(n)
	}
	return status(C.nc_def_var_chunking(C.int(ds), id, C.NC_CHUNKED, &sizes[0]))
}

// writeValues writes all n values of a variable.
//
// Errors: a block whose length is not that of n values, which would let netCDF-C read
// behind it; an offset that is not a multiple of 8, where a pointer to float64 is
// undefined.
func writeValues(nv netcdf.Var, v encode.Variable, n int, payload []byte) error {
	b, err := v.Values.In(payload)
	if err != nil {
		return err
	}
	if len(b) != n*v.Type.Size() || v.Values.Offset%8 != 0 {
		return fmt.Errorf("%d bytes at %d for %d values of type %s", len(b), v.Values.Offset, n, v.Type)
	}
	if n == 0 {
		return nil
	}
	// The payload begins at a page and the block at a multiple of 8. Supported
	// machines are little-endian. So the bytes of the payload are the values.
	p := unsafe.Pointer(&b[0])
	switch v.Type {
	case encode.Float:
		return nv.WriteFloat32s(unsafe.Slice((*float32)(p), n))
	case encode.Double:
		return nv.WriteFloat64s(unsafe.Slice((*float64)(p), n))
	case encode.Short:
		return nv.WriteInt16s(unsafe.Slice((*int16)(p), n))
	case encode.Char:
		return nv.WriteBytes(b)
	default:
		return nv.WriteInt32s(unsafe.Slice((*int32)(p), n))
	}
}

// writeAttribute writes the value that is set. Text is written as char, the only text of
// the classic model (CF section 2.2). The types of numbers matter: _FillValue must have
// that of its variable.
//
// Errors: an attribute without value, which netCDF-C would write as an empty one.
func writeAttribute(to netcdf.Attr, a encode.Attribute) error {
	switch {
	case a.Text != "":
		return to.WriteBytes([]byte(a.Text))
	case a.Floats != nil:
		return to.WriteFloat32s(a.Floats)
	case a.Doubles != nil:
		return to.WriteFloat64s(a.Doubles)
	case a.Ints != nil:
		return to.WriteInt32s(a.Ints)
	case a.Shorts != nil:
		return to.WriteInt16s(a.Shorts)
	}
	return fmt.Errorf("has no value")
}

// status converts a return code of netCDF-C to an error. netCDF-C's errors are negative,
// those of the system positive; nc_strerror formats both.
func status(code C.int) error {
	if code == C.NC_NOERR {
		return nil
	}
	return fmt.Errorf("%s", C.GoString(C.nc_strerror(code)))
}
