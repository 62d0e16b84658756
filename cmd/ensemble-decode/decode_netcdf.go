package main

import (
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
)

// maxSlab bounds one part of a variable, in values.
const maxSlab = 1 << 28

func openNetCDF(path string) (*nclib.File, error) {
	f, err := nclib.Open(path)
	if err != nil {
		return nil, &exit.Error{Code: exit.BadData, What: "NetCDF file cannot be opened", At: path, Why: err.Error(), Fix: "fetch the file again"}
	}
	return f, nil
}

// netcdfHeader answers everything but the values of a file.
func netcdfHeader(args json.RawMessage, _ []byte, _ *wire.Payload) (any, error) {
	var req netcdf.HeaderRequest
	if err := json.Unmarshal(args, &req); err != nil {
		return nil, err
	}
	f, err := openNetCDF(req.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Header(), nil
}

// netcdfValues reads parts of variables into the output payload.
func netcdfValues(args json.RawMessage, _ []byte, out *wire.Payload) (any, error) {
	var req netcdf.ValuesRequest
	if err := json.Unmarshal(args, &req); err != nil {
		return nil, err
	}
	f, err := openNetCDF(req.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var scratch []float64
	list := make([]wire.Values, len(req.Slabs))
	for i, s := range req.Slabs {
		n := s.Size()
		if n < 1 || n > maxSlab {
			list[i].Error = "the part has an impossible size"
			continue
		}
		if int64(cap(scratch)) < n {
			scratch = make([]float64, n)
		}
		v := scratch[:n]
		if err := f.Double(v, s); err != nil {
			list[i].Error = err.Error()
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
		list[i].At, list[i].Count = at, int(n)
		for k, x := range v {
			if req.Double {
				binary.LittleEndian.PutUint64(b[8*k:], math.Float64bits(x))
			} else {
				binary.LittleEndian.PutUint32(b[4*k:], math.Float32bits(float32(x)))
			}
		}
	}
	return list, nil
}
