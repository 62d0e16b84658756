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

// Whole says why a file does not look complete, by the end of the last GRIB message or by
// the sizes in a NetCDF header; "" if it does. A file that was cut between two messages
// looks complete: only its inventory tells. A Zarr store is complete if no chunk is absent,
// or if Options.Sparse says that they may be; no other option counts.
//
// Errors: those of a file that is not there, of another kind, or cannot be read.
func Whole(path string, o Options) (why string, err error) {
	f, err := detect(path)
	if err != nil {
		return "", err
	}
	if f.format == &stores {
		return wholeStore(f, o)
	}
	defer f.f.Close()
	if f.format.name == "NetCDF" {
		err := netcdf.Scan(f.f, f.size)
		var fault *netcdf.Fault
		if errors.As(err, &fault) {
			return fault.What + ": " + fault.Why, nil
		}
		return "", exit.Read(path, err)
	}
	tail := make([]byte, min(f.size, tailSize))
	if _, err := f.f.ReadAt(tail, f.size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return "", exit.Read(path, err)
	}
	end := bytes.TrimRight(tail, "\x00\x03\r\n ")
	if len(end) > 0 && !bytes.HasSuffix(end, []byte("7777")) {
		return fmt.Sprintf("it ends with %q, not with the end of a message", end[max(0, len(end)-4):]), nil
	}
	return "", nil
}

// wholeStore is Whole for a Zarr store, which has all its chunks, unless it is sparse.
func wholeStore(f *file, o Options) (why string, err error) {
	if f.f != nil {
		f.f.Close()
	}
	s, err := zarr.Open(f.path, zarr.Options{Sparse: o.Sparse})
	var bad *exit.Error
	if errors.As(err, &bad) && bad.Code == exit.BadData {
		return bad.What + ": " + bad.Why, nil
	}
	if err != nil {
		return "", err
	}
	defer s.Close()
	if chunk := s.Absent(); chunk != "" {
		why = chunk + " is absent"
	}
	return why, nil
}
