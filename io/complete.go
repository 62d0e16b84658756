package fio

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// tailSize is how much of the end of a GRIB file is looked at for the end of its last
// message: padding and bulletin trailers come behind it.
const tailSize = 64 << 10

// CheckComplete says why a file does not look complete, by the end of the last GRIB message or by
// the sizes in a NetCDF header; "" if it does. A file that was cut between two messages
// looks complete: only its inventory tells. A Zarr store is complete if no chunk is absent,
// or if Options.Sparse says that they may be; no other option counts.
//
// Errors: those of a file that is not there, of another kind, or cannot be read.
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

// completeNetCDF compares the sizes in the header with that of the file.
func completeNetCDF(f *file, _ Options) (why string, err error) {
	err = netcdf.Scan(f.f, f.size)
	var fault *netcdf.Fault
	if errors.As(err, &fault) {
		return fault.What + ": " + fault.Why, nil
	}
	return "", exit.ReadError(f.path, err)
}

// completeGRIB looks for the end of the last message.
func completeGRIB(f *file, _ Options) (why string, err error) {
	tail := make([]byte, min(f.size, tailSize))
	if _, err := f.f.ReadAt(tail, f.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return "", exit.ReadError(f.path, err)
	}
	end := bytes.TrimRight(tail, "\x00\x03\r\n ")
	if len(end) > 0 && !bytes.HasSuffix(end, []byte("7777")) {
		return fmt.Sprintf("it ends with %q, not with the end of a message", end[max(0, len(end)-4):]), nil
	}
	return "", nil
}

// completeZarr looks for absent chunks, which only a sparse store may have.
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
