package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/decode/wire"
	"github.com/ensemble-weather/ensemble/io/grib/eccodes"
	"github.com/ensemble-weather/ensemble/io/product/encode"
)

// file is the shared memory for encoded files.
var file = os.NewFile(wire.FileFD, "file")

// encodeGRIB writes one file of GRIB messages, described by an encode.GRIB, to shared memory.
func encodeGRIB(args json.RawMessage, in []byte, _ *wire.Payload) (any, error) {
	var g encode.GRIB
	if err := json.Unmarshal(args, &g); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	return nil, encodeFile("GRIB", func(to io.Writer) error { return eccodes.Write(to, &g, in) })
}

// encodeFile replaces the content of the shared memory for files.
func encodeFile(format string, write func(io.Writer) error) error {
	if err := file.Truncate(0); err != nil {
		return encodeError(format, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return encodeError(format, err)
	}
	buf := bufio.NewWriterSize(file, 1<<20)
	err := write(buf)
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return encodeError(format, err)
	}
	return nil
}

// encodeError returns the reason why a file could not be encoded. It is written to memory, so a full disk is none.
func encodeError(format string, err error) error {
	if errors.As(err, new(*eccodes.TemplateError)) {
		return &exit.Error{Code: exit.BadData, What: "the GRIB message of the input cannot be converted to a product", Why: err.Error(),
			Fix: "write NetCDF instead", Err: err}
	}
	if errors.As(err, new(*fs.PathError)) { // of the memory, such as a limit of the size of files
		return exit.CreateError("memory of the file", err)
	}
	return &exit.Error{Code: exit.Bug, What: "cannot encode the " + format + " file", Why: err.Error(),
		Fix: "report it with the command and the first input file; nothing was published", Err: err}
}
