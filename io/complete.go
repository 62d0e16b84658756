package fio

import (
	"bytes"
	"errors"
	"io"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// tailSize is the length of the tail in which the end of the last GRIB message is
// searched. Padding and bulletin trailers may follow it.
const tailSize = 64 << 10

// CheckComplete returns the reason why a file is incomplete: the end of the last
// GRIB message is missing, or the file is shorter than its NetCDF header states; ""
// if it looks complete. A GRIB file that was truncated between two messages looks
// complete; only its inventory shows the loss. A Zarr store is complete if no chunk
// is absent, or with Options.Sparse. Other options have no effect.
//
// Errors: those of an absent file, an unknown format, or reading.
// Cost: the tail of a GRIB file, the header of a NetCDF file, the names of the chunks of
// a store; no value is decoded.
func CheckComplete(path string, o Options) (why string, err error) {
	f, err := detect(path)
	if err != nil {
		return "", err
	}
	if f.f != nil {
		defer f.f.Close()
	}
	return f.format.complete(f, o)
}

// completeNetCDF compares the sizes in the header with that of the file. The structural
// scan of package netcdf finds the end of the last variable (classic format) or the
// end-of-file address (HDF5 superblock), which a truncated file does not reach.
//
// Source: NUG, The NetCDF Classic Format Specification; HDF5 file format specification
// 3.0, section II.A (superblock).
func completeNetCDF(f *file, _ Options) (why string, err error) {
	err = netcdf.Scan(f.f, f.size)
	var fault *netcdf.Fault
	if errors.As(err, &fault) {
		return fault.What + ": " + fault.Why, nil
	}
	return "", exit.ReadError(f.path, err)
}

// completeGRIB searches the end of the last message.
//
// Zeros, ETX, carriage returns, newlines and blanks behind it are those of WMO bulletins
// (manual on the GTS, WMO-No. 386) and of padding.
//
// Source: WMO-No. 306, FM 92 GRIB, section 8 (edition 2) and section 5 (edition 1):
// "7777".
func completeGRIB(f *file, _ Options) (why string, err error) {
	tail := make([]byte, min(f.size, tailSize))
	if _, err := f.f.ReadAt(tail, f.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return "", exit.ReadError(f.path, err)
	}
	end := bytes.TrimRight(tail, "\x00\x03\r\n ")
	if len(end) > 0 && !bytes.HasSuffix(end, []byte("7777")) {
		return "cut off (no 7777 at the end)", nil
	}
	return "", nil
}

// completeZarr searches for absent chunks, which only a sparse store may have.
//
// Source: Zarr specification, version 2, section "Chunks", and version 3, section
// "Stores": a chunk that is absent has the fill value.
func completeZarr(f *file, o Options) (why string, err error) {
	s, err := zarr.Open(f.path, zarr.Options{Sparse: o.Sparse})
	var bad *exit.Error
	if errors.As(err, &bad) && bad.Code == exit.BadData {
		return bad.What + ": " + bad.Why, nil
	}
	if err != nil {
		return "", err
	}
	defer s.Close()
	if chunk := s.FirstAbsentChunk(); chunk != "" {
		why = chunk + " is absent"
	}
	return why, nil
}
