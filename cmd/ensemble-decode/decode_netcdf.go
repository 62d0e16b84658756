package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"unsafe"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
)

// maxSlab bounds the values of one slab.
const maxSlab = 1 << 28

// openFile is the file of the last request. It stays open because consecutive
// requests often concern one file.
var openFile struct {
	path  string
	stamp fs.FileInfo
	file  *nclib.File
}

// openNetCDF opens a file, unless it is already open and unchanged.
func openNetCDF(path string) (*nclib.File, error) {
	bad := func(err error) (*nclib.File, error) {
		return nil, &exit.Error{Code: exit.BadData, What: "NetCDF file cannot be opened", At: path, Why: err.Error(), Fix: "transfer the file again"}
	}
	stamp, err := os.Stat(path)
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	o := &openFile
	if o.file != nil {
		if o.path == path && os.SameFile(o.stamp, stamp) && o.stamp.Size() == stamp.Size() && o.stamp.ModTime().Equal(stamp.ModTime()) {
			return o.file, nil
		}
		o.file.Close()
		o.file = nil
	}
	readable, err := os.Open(path) // the library does not tell a permission from damage
	if err != nil {
		return nil, exit.ReadError(path, err)
	}
	readable.Close()
	f, err := nclib.Open(path)
	if err != nil {
		return bad(err)
	}
	o.path, o.stamp, o.file = path, stamp, f
	return f, nil
}

// netcdfHeader returns dimensions, variables and attributes of a file.
func netcdfHeader(args json.RawMessage, _ []byte, _ *wire.Payload) (any, error) {
	var req netcdf.HeaderRequest
	if err := json.Unmarshal(args, &req); err != nil {
		return nil, err
	}
	f, err := openNetCDF(req.Path)
	if err != nil {
		return nil, err
	}
	return f.Header(), nil
}

// installFilter states how to install filters of HDF5. The package contains those in
// use.
const installFilter = "install its plugin (`pip install hdf5plugin`) and set HDF5_PLUGIN_PATH to its folder (`python -c \"import hdf5plugin; print(hdf5plugin.PLUGIN_PATH)\"`)"

// netcdfValues reads slabs of variables into the output payload.
func netcdfValues(args json.RawMessage, _ []byte, out *wire.Payload) (any, error) {
	var req netcdf.ValuesRequest
	if err := json.Unmarshal(args, &req); err != nil {
		return nil, err
	}
	f, err := openNetCDF(req.Path)
	if err != nil {
		return nil, err
	}
	list := make([]wire.Values, len(req.Slabs))
	for i, s := range req.Slabs {
		n := s.Size()
		if n < 1 || n > maxSlab {
			list[i].Error = "the slab has an invalid size"
			continue
		}
		width := 4
		if req.Double {
			width = 8
		}
		at, b, err := out.Grow(width * int(n))
		if err != nil {
			return nil, err
		}
		first := unsafe.Pointer(unsafe.SliceData(b))
		if req.Double {
			err = f.Double(unsafe.Slice((*float64)(first), n), s)
		} else {
			err = f.Float(unsafe.Slice((*float32)(first), n), s)
		}
		if err != nil {
			list[i].Error = err.Error()
			var filter *nclib.FilterError
			if errors.As(err, &filter) {
				list[i].Install = installFilter
			}
			continue
		}
		list[i].Offset, list[i].Count = at, int(n)
	}
	return list, nil
}
