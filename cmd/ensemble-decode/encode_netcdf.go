package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/netcdf/nclib"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// encodeNetCDF writes one NetCDF file, described by an encode.NetCDFFile. The library writes it itself: files in its memory lose the order of
// variables.
func encodeNetCDF(args json.RawMessage, in []byte, _ *wire.Payload) (any, error) {
	var f encode.NetCDFFile
	if err := json.Unmarshal(args, &f); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if err := nclib.Write(f.Path, &f.NetCDF, in); err != nil {
		return nil, writeError(f.Path, len(in), err)
	}
	return nil, nil
}

// writeError returns the reason why a file could not be written. The library reports a full disk with a text of its own ("NetCDF: HDF error"), so
// free space is checked first.
func writeError(path string, need int, err error) error {
	var disk unix.Statfs_t
	full := errors.Is(err, unix.ENOSPC)
	free := int64(-1)
	if unix.Statfs(path, &disk) == nil {
		free = int64(disk.Bavail) * disk.Bsize
		full = full || free < 1<<20
	}
	if full {
		return &exit.Error{Code: exit.IO, What: "no space left", At: path,
			Why: fmt.Sprintf("%d bytes are free, up to %d are needed; nothing was published", max(free, 0), need),
			Fix: "free space; rerun the same command", Err: err}
	}
	return encodeError("NetCDF", err)
}
