// Package fio opens inputs of all supported formats: GRIB, NetCDF and Zarr. It
// detects formats by content, indexes all files, and reads fields in parallel.
// Libraries run in decoding child processes (package io/decode).
//
// The directory is io; the package is named fio because io is a package of the
// standard library.
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

// format describes one file format.
type format struct {
	name     string
	suffixes []string                                             // suffixes lists the usual suffixes of file names.
	matches  func(head []byte) bool                               // matches reports whether the head of a file has this format.
	index    func(ctx context.Context, in *Input, f *file) error  // index reads structure and metadata of a file.
	read     func(ctx context.Context, in *Input, b *batch) error // read decodes the values of a batch of fields of one file.
	complete func(f *file, o Options) (why string, err error)     // complete returns the reason why a file is not complete, "" if it is.
}

// formats lists the readable formats in the order of detection.
var formats = []format{
	{"NetCDF", []string{".nc", ".nc4", ".cdf"}, isNetCDF, indexNetCDF, readNetCDF, completeNetCDF},
	zarrFormat, // before GRIB, which may begin anywhere in the head
	{"GRIB", []string{".grib", ".grib1", ".grib2", ".grb", ".grb1", ".grb2"}, isGRIB, indexGRIB, readGRIB, completeGRIB},
}

// zarrFormat is also the format of a directory that is a store.
var zarrFormat = format{"Zarr", []string{".zarr.zip"}, isZip, indexZarr, readZarr, completeZarr}

// headSize is the length of the head in which formats are detected. Bulletin
// headers of up to some kilobytes precede the first message of real GRIB files.
const headSize = 64 << 10

// isZip reports whether a head begins a zip archive.
func isZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// isGRIB reports whether a head contains the start of a GRIB message.
func isGRIB(head []byte) bool { return bytes.Contains(head, []byte("GRIB")) }

var hdf5Signature = []byte("\x89HDF\r\n\x1a\n")

// isNetCDF reports whether a head is that of a classic NetCDF file, or of HDF5 with
// or without a user block. The HDF5 superblock lies at byte 0, 512, 1024, 2048 and
// so on.
//
// Source: NUG, The NetCDF Classic Format Specification; HDF5 File Format
// Specification Version 3.0, section II.A.
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

// foreignSignatures gives the names of other formats, for errors, by their first
// bytes.
var foreignSignatures = []struct{ prefix, what string }{
	{"\x1f\x8b", "a gzip archive"}, {"BZh", "a bzip2 archive"}, {"\xfd7zXZ", "an xz archive"},
	{"(\xb5/\xfd", "a zstd archive"}, {"\x89PNG", "a PNG image"}, {"%PDF", "a PDF document"}, {"BUFR", "a BUFR file"},
	{"<!DOCTYPE", "an HTML page"}, {"<html", "an HTML page"}, {"<HTML", "an HTML page"}, {"<?xml", "an XML document"}, {"{", "a JSON text"},
	{"\x80\x02", "a Python pickle"}, {"\x80\x04", "a Python pickle"}, {"PAR1", "a Parquet file"}, {"\x89HD", "a damaged HDF5 file"}, {"\x0eHDF", "an HDF4 file"}, {"GRI", "the start of a GRIB file"}, {"HDF\r", "a damaged HDF5 file"},
}

// detect opens a file or directory and detects its format.
//
// Errors: exit 66 if it does not exist, 65 for an unknown format.
func detect(path string) (*file, error) {
	st, err := os.Stat(path)
	switch {
	case os.IsNotExist(err):
		return nil, &exit.Error{Code: exit.NotYet, What: "input file not found", At: path, Fix: "check the name, or wait until it has arrived", Err: err}
	case errors.Is(err, syscall.ELOOP):
		return nil, unsupportedFile(path, "it is a cycle of symbolic links", "give the target file")
	case err != nil:
		return nil, unreadable(path, err)
	case st.IsDir() && zarr.IsStore(path):
		return &file{path: path, format: &zarrFormat}, nil
	case st.IsDir():
		return nil, unsupportedFile(path, "it is a directory without Zarr metadata", "give the files in it")
	case st.Mode()&fs.ModeType != 0:
		return nil, unsupportedFile(path, "it is not a regular file ("+st.Mode().Type().String()+")", "copy its content to a file")
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

// guessFormat returns the name of another format by its first bytes, "" if unknown.
func guessFormat(head []byte) string {
	text := strings.TrimLeft(string(head), " \t\r\n\ufeff")
	for _, g := range foreignSignatures {
		if strings.HasPrefix(text, g.prefix) {
			return g.what
		}
	}
	return ""
}

// describeForeign describes the content of a file of unknown format.
func describeForeign(head []byte) string {
	if what := guessFormat(head); what != "" {
		return "it looks like " + what
	}
	return fmt.Sprintf("it begins with %q", head[:min(16, len(head))])
}

// unsupportedFile returns the error for a file of unknown format.
func unsupportedFile(path, why, fix string) error {
	return &exit.Error{Code: exit.BadData, What: "not a GRIB file, NetCDF file or Zarr store", At: path, Why: why, Fix: fix}
}

// unreadable returns the error for a file that cannot be read: exit 66 without
// permission, else 74.
func unreadable(path string, err error) error {
	code := exit.IO
	if os.IsPermission(err) {
		code = exit.NotYet
	}
	return &exit.Error{Code: code, What: "input file cannot be read", At: path, Why: err.Error(), Fix: "check its permissions and the file system", Err: err}
}
