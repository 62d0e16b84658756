package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// encodeGRIB writes one file of GRIB messages, described by an encode.GRIB.
func encodeGRIB(args json.RawMessage, in []byte, _ *wire.Payload) (any, error) {
	var g encode.GRIB
	if err := json.Unmarshal(args, &g); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	f, err := os.Create(g.Path)
	if err != nil {
		return nil, writeError("GRIB", g.Path, len(in), err)
	}
	buf := bufio.NewWriterSize(f, 1<<20)
	err = eccodes.Write(buf, &g, in)
	if err == nil {
		err = buf.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, writeError("GRIB", g.Path, len(in), err)
	}
	return written(g.Path)
}

// written returns the result of both encoders: the size of the file.
func written(path string) (encode.FileResult, error) {
	st, err := os.Stat(path)
	if err != nil {
		return encode.FileResult{}, err
	}
	return encode.FileResult{Bytes: st.Size()}, nil
}

// writeError returns the reason why a file could not be written. Libraries report a
// full disk with texts of their own ("NetCDF: HDF error"), so free space is checked
// first.
func writeError(format, path string, need int, err error) error {
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
	if errors.As(err, new(*os.PathError)) {
		return &exit.Error{Code: exit.CannotWrite, What: "cannot write the " + format + " file", At: path, Why: err.Error(),
			Fix: "see the cause; nothing was published", Err: err}
	}
	if errors.As(err, new(*eccodes.TemplateError)) {
		return &exit.Error{Code: exit.BadData, What: "the GRIB message of the input cannot be converted to a product", At: path, Why: err.Error(),
			Fix: "write NetCDF instead", Err: err}
	}
	return &exit.Error{Code: exit.Bug, What: "cannot encode the " + format + " file", At: path, Why: err.Error(),
		Fix: "report it with the command and the first input file; nothing was published", Err: err}
}
