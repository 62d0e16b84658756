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
	"github.com/ensemble-weather/ensemble/internal/filesystem"
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

// isZip reports whether a head begins a zip archive. An archive without members begins
// otherwise (PK\x05\x06) and is no store.
//
// Source: APPNOTE.TXT, section 4.3.7 (local file header).
func isZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// isGRIB reports whether a head contains the start of a GRIB message. It must be tested
// last: the letters may occur in other formats.
//
// Source: WMO-No. 306, FM 92 GRIB, section 0, octets 1 to 4.
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

// foreignFormat is another format, found by the first bytes of a file.
type foreignFormat struct {
	prefix string
	what   string
	fix    string // FILE is the file, OUT a name for the unpacked one; "" for the general fix
}

// Fixes that several formats share.
const (
	fixFetch = "the download gave another answer: look at the file, and fetch it again"
	fixInput = "give GRIB or NetCDF files or Zarr stores"
)

// foreignFormats lists other formats, for errors. The first match counts. Prefixes are
// those of file(1) and of the formats' specifications; the last rows are signatures that
// a download truncated or a transfer in text mode has changed.
var foreignFormats = []foreignFormat{
	{"\x1f\x8b", "a gzip archive", "unpack it: `gunzip -c FILE > OUT`"}, {"BZh", "a bzip2 archive", "unpack it: `bunzip2 -k FILE`"}, {"\xfd7zXZ", "an xz archive", "unpack it: `xz -dk FILE`"},
	{"(\xb5/\xfd", "a zstd archive", "unpack it: `zstd -d FILE`"}, {"\x1f\x9d", "a compress archive", "unpack it: `gunzip -c FILE > OUT`"}, {"7z\xbc\xaf", "a 7z archive", "unpack it: `7z x FILE`"},
	{"version https://git-lfs", "a pointer of Git LFS, not the file itself", "fetch the file: `git lfs pull` in its repository"},
	{"<!DOCTYPE", "an HTML page", fixFetch}, {"<!doctype", "an HTML page", fixFetch}, {"<html", "an HTML page", fixFetch}, {"<HTML", "an HTML page", fixFetch}, {"<?xml", "an XML document", fixFetch},
	{"\x89PNG", "a PNG image", ""}, {"%PDF", "a PDF document", ""}, {"BUFR", "a BUFR file", ""},
	{"\x80\x02", "a Python pickle", ""}, {"\x80\x04", "a Python pickle", ""}, {"PAR1", "a Parquet file", ""}, {"\x0eHDF", "an HDF4 file", ""},
	{"\x89HD", "a damaged HDF5 file", "fetch the file again"}, {"HDF\r", "a damaged HDF5 file", "fetch the file again"}, {"GRI", "the start of a GRIB file", "fetch the file again"},
}

// Formats that the first bytes do not identify.
var (
	kerchunk = foreignFormat{"", "references of kerchunk", "references are not read: give the files to which they refer, or make a store (`to_zarr` of xarray)"}
	jsonText = foreignFormat{"{", "a JSON text", ""}
	tarball  = foreignFormat{"", "a tar archive", "unpack it: `tar -xf FILE`"}
)

// detect opens a file or directory and detects its format.
//
// The file stays open, so that a file that is replaced during the run does not change
// under its reader; its fingerprint is taken from the same descriptor.
//
// Errors: exit 66 if it does not exist, 65 for an unknown format.
func detect(path string) (*file, error) {
	st, err := filesystem.Stat(path)
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
	f, err := filesystem.Open(path)
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
	fix := fixInput
	if foreign := foreignFormatOf(head); foreign != nil && foreign.fix != "" {
		out, ok := strings.CutSuffix(path, ".gz")
		if !ok {
			out += ".unpacked"
		}
		fix = strings.NewReplacer("FILE", shellWord(path), "OUT", shellWord(out)).Replace(foreign.fix)
	}
	return nil, unsupportedFile(path, describeForeign(head), fix)
}

// shellWord quotes a path for a command line if it needs quotes. A path in a fix can
// thus be pasted into a shell.
func shellWord(path string) string {
	if strings.ContainsAny(path, " \t'\"$`\\*?[](){};&|<>~#!") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// foreignFormatOf returns the other format that a file has; nil if unknown. Blanks and a
// byte order mark before the text are skipped.
func foreignFormatOf(head []byte) *foreignFormat {
	text := strings.TrimLeft(string(head), " \t\r\n\ufeff")
	for i := range foreignFormats {
		if strings.HasPrefix(text, foreignFormats[i].prefix) {
			return &foreignFormats[i]
		}
	}
	switch {
	case strings.HasPrefix(text, jsonText.prefix) && (strings.Contains(text, `"refs"`) || strings.Contains(text, ".zarray") || strings.Contains(text, ".zgroup")):
		return &kerchunk
	case strings.HasPrefix(text, jsonText.prefix):
		return &jsonText
	// The magic of a tar header lies at byte 257.
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return &tarball
	}
	return nil
}

// describeForeign describes the content of a file of unknown format.
func describeForeign(head []byte) string {
	if foreign := foreignFormatOf(head); foreign != nil {
		return "it looks like " + foreign.what
	}
	return fmt.Sprintf("it begins with %q", head[:min(16, len(head))])
}

// unsupportedFile returns the error for a file of unknown format.
func unsupportedFile(path, why, fix string) error {
	return &exit.Error{Code: exit.BadData, What: "not a GRIB file, NetCDF file or Zarr store", At: path, Why: why, Fix: fix}
}

// unreadable returns the error for a file that cannot be read: exit 66 without
// permission, else 74. Without permission another run may succeed (66); all else is a
// fault of the file system.
func unreadable(path string, err error) error {
	code := exit.IO
	if os.IsPermission(err) {
		code = exit.NotYet
	}
	return &exit.Error{Code: code, What: "input file cannot be read", At: path, Why: err.Error(), Fix: "check its permissions and the file system", Err: err}
}
