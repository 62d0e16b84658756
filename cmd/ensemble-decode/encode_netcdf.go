package main

import (
	"encoding/json"
	"fmt"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// encodeNetCDF writes one NetCDF file, described by an encode.NetCDF, to the shared memory for files. The library opens it by the name of its
// descriptor: in files of its own memory it loses the order of variables.
func encodeNetCDF(args json.RawMessage, in []byte, _ *wire.Payload) (any, error) {
	var f encode.NetCDF
	if err := json.Unmarshal(args, &f); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if err := nclib.Write(fmt.Sprintf("/proc/self/fd/%d", wire.FileFD), &f, in); err != nil {
		return nil, writeError(err)
	}
	return nil, nil
}

// writeError returns the reason why the file could not be written. The library hides errors of the system, so the next byte is written without
// it: what fails then is no fault of the file.
func writeError(err error) error {
	st, e := file.Stat()
	if e == nil {
		_, e = file.WriteAt([]byte{0}, st.Size()+probe)
	}
	if e != nil {
		return exit.CreateError("memory of the file", e)
	}
	return encodeError("NetCDF", err)
}

// probe is the distance from the end of a file at which writeError writes: a chunk of the library may have been larger than what a limit left.
const probe = 64 << 20
