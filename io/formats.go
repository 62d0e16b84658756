// Package fio opens inputs of any supported format: it tells formats apart by
// content, indexes all files, and reads fields in parallel through decoding
// children. Its folder is io, its name fio so as not to hide the standard io.
package fio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/io/zarr"
)

// format is one kind of file.
type format struct {
	name string
	// suffixes are those that names of such files have.
	suffixes []string
	// matches looks at the first bytes of a file.
	matches func(head []byte) bool
	// index reads structure and metadata of a file.
	index func(ctx context.Context, in *Input, f *file) error
	// read decodes the values of a batch of fields of one file.
	read func(ctx context.Context, in *Input, b *batch) error
	// complete says why a file does not look complete; "" if it does.
	complete func(f *file, o Options) (why string, err error)
}

// formats is the table of what can be read, tried in order.
var formats = []format{
	{"NetCDF", []string{".nc", ".nc4", ".cdf"}, isNetCDF, indexNetCDF, readNetCDF, completeNetCDF},
	zarrFormat, // before GRIB, whose mark may stand anywhere in its head
	{"GRIB", []string{".grib", ".grib1", ".grib2", ".grb", ".grb1", ".grb2"}, isGRIB, indexGRIB, readGRIB, completeGRIB},
}

// zarrFormat is also the format of a folder that holds a store.
var zarrFormat = format{"Zarr", []string{".zarr.zip"}, isZip, indexZarr, readZarr, completeZarr}

// headSize is how much of a file is looked at to tell its format; real GRIB
// files have up to some kilobytes of bulletin header before the first message.
const headSize = 64 << 10

func isZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

func isGRIB(head []byte) bool { return bytes.Contains(head, []byte("GRIB")) }

var hdf5Signature = []byte("\x89HDF\r\n\x1a\n")

// isNetCDF knows the classic formats and HDF5 with or without a user block.
func isNetCDF(head []byte) bool {
	if len(head) >= 4 && bytes.HasPrefix(head, []byte("CDF")) {
		return true
	}
	for at := 0; at+8 <= len(head); at = max(512, 2*at) {
		if bytes.Equal(head[at:at+8], hdf5Signature) {
			return true
		}
	}
	return false
}

// foreignSignatures name what a wrong file probably is, by its first bytes.
var foreignSignatures = []struct{ prefix, what string }{
	{"\x1f\x8b", "a gzip archive"}, {"BZh", "a bzip2 archive"}, {"\xfd7zXZ", "an xz archive"},
	{"(\xb5/\xfd", "a zstd archive"}, {"\x89PNG", "a PNG image"}, {"%PDF", "a PDF document"}, {"BUFR", "a BUFR file"},
	{"<!DOCTYPE", "an HTML page"}, {"<html", "an HTML page"}, {"<HTML", "an HTML page"}, {"<?xml", "an XML document"}, {"{", "a JSON text"},
	{"\x80\x02", "a Python pickle"}, {"\x80\x04", "a Python pickle"}, {"PAR1", "a Parquet file"}, {"\x89HD", "a damaged HDF5 file"}, {"\x0eHDF", "an HDF4 file"}, {"GRI", "the start of a GRIB file"}, {"HDF\r", "a damaged HDF5 file"},
}

// detect opens a file, if it is one, and finds the format of a file or folder.
//
// Errors: exit 66 if it is not there, 65 if it is of no known format.
func detect(path string) (*file, error) {
	st, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return nil, &exit.Error{Code: exit.NotYet, What: "input file is not there", At: path, Fix: "check the name, or wait until it has arrived", Err: err}
	case errors.Is(err, syscall.ELOOP):
		return nil, unsupportedFile(path, "it is a link that leads back to itself", "name the file that it should lead to")
	case err != nil:
		return nil, unreadable(path, err)
	case st.IsDir() && zarr.IsStore(path):
		return &file{path: path, format: &zarrFormat}, nil
	case st.IsDir():
		return nil, unsupportedFile(path, "it is a folder without Zarr metadata", "name the files in it")
	case st.Mode()&fs.ModeType != 0:
		return nil, unsupportedFile(path, "it is no regular file but "+st.Mode().Type().String(), "copy its content into a file")
	case st.Size() == 0:
		return nil, unsupportedFile(path, "the file is empty", "fetch it again")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	mark, err := fingerprint.OfFile(f)
	if err != nil {
		f.Close()
		return nil, unreadable(path, err)
	}
	head := make([]byte, min(headSize, mark.Size))
	if _, err := f.ReadAt(head, 0); err != nil {
		f.Close()
		return nil, unreadable(path, err)
	}
	for i := range formats {
		if formats[i].matches(head) {
			return &file{path: path, size: mark.Size, f: f, mark: mark, format: &formats[i]}, nil
		}
	}
	f.Close()
	return nil, unsupportedFile(path, describeForeign(head), "give GRIB or NetCDF files or Zarr stores")
}

// guessFormat says what a wrong file probably is, "" if that is not known.
func guessFormat(head []byte) string {
	text := strings.TrimLeft(string(head), " \t\r\n\ufeff")
	for _, g := range foreignSignatures {
		if strings.HasPrefix(text, g.prefix) {
			return g.what
		}
	}
	return ""
}

// describeForeign says what is wrong with a file of no known format.
func describeForeign(head []byte) string {
	if what := guessFormat(head); what != "" {
		return "it looks like " + what
	}
	return fmt.Sprintf("it begins with %q", head[:min(16, len(head))])
}

func unsupportedFile(path, why, fix string) error {
	return &exit.Error{Code: exit.BadData, What: "not a GRIB or NetCDF file nor a Zarr store", At: path, Why: why, Fix: fix}
}

func unreadable(path string, err error) error {
	code := exit.IO
	if os.IsPermission(err) {
		code = exit.NotYet
	}
	return &exit.Error{Code: code, What: "input file cannot be read", At: path, Why: err.Error(), Fix: "check its permissions and the file system", Err: err}
}
