package main

import (
	"encoding/json"
	"fmt"

	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// encodeNetCDF writes one NetCDF file, described by an encode.NetCDF.
func encodeNetCDF(args json.RawMessage, in []byte, _ *wire.Payload) (any, error) {
	var f encode.NetCDF
	if err := json.Unmarshal(args, &f); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if err := nclib.Write(&f, in); err != nil {
		return nil, writeError("NetCDF", f.Path, len(in), err)
	}
	return written(f.Path)
}
