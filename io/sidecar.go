package fio

import (
	"bufio"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/io/grib"
)

// IndexRow is a row of an index file that accompanies a GRIB file: the position of
// a message.
type IndexRow struct {
	Offset, Length int64 // Length 0: not stated
}

// End returns the offset after the last byte that the row covers.
func (r IndexRow) End() int64 { return r.Offset + max(r.Length, 1) }

// Sidecar returns the file that accompanies another one: its name with an additional
// suffix, or with its suffix replaced; "" if none exists. For "a.grib2" and ".idx" these
// are a.grib2.idx and a.idx, in this order.
func Sidecar(path, ending string) string {
	for _, name := range []string{path + ending, strings.TrimSuffix(path, filepath.Ext(path)) + ending} {
		if s, err := filesystem.Stat(name); name != path && err == nil && s.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// ReadIndex calls visit for each row of an index file until it returns an error.
// The formats are JSON lines with _offset and _length (ECMWF), and wgrib2's
// number:offset:….
//
// Rows count from 1; empty lines do not count. A line may have 64 KiB.
//
// Errors: those of reading; a row of another format; the error of visit.
func ReadIndex(path string, visit func(row int, r IndexRow) error) error {
	f, err := filesystem.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	row := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		row++
		r, ok := indexRow(text)
		if !ok {
			return fmt.Errorf("row %d of its index %s has an unknown format", row, path)
		}
		if err := visit(row, r); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("its index %s cannot be read: %w", path, err)
	}
	if row == 0 {
		return fmt.Errorf("its index %s is empty", path)
	}
	return nil
}

// indexRow parses one row. ok is false for negative offsets and for lengths that are not
// positive.
//
// Source: ECMWF, open data index files; wgrib2, inventory format "number:offset:…".
func indexRow(text string) (r IndexRow, ok bool) {
	if strings.HasPrefix(text, "{") {
		var row struct {
			Offset *int64 `json:"_offset"`
			Length *int64 `json:"_length"`
		}
		if json.Unmarshal([]byte(text), &row) != nil || row.Offset == nil || row.Length == nil {
			return r, false
		}
		r = IndexRow{*row.Offset, *row.Length}
		return r, r.Offset >= 0 && r.Length > 0 && r.End() > r.Offset
	}
	part := strings.SplitN(text, ":", 3)
	if len(part) < 3 {
		return r, false
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	return IndexRow{Offset: at}, err == nil && at >= 0
}

// indexSuffixes lists the suffixes of index files of ECMWF and wgrib2.
var indexSuffixes = []string{".index", ".idx"}

// checkSidecar compares an index file with the messages of its GRIB file. An index
// is only a hint, so a mismatch is a warning and the index is ignored. It usually means that the file
// was replaced or is still being transferred, which a user should know before a long run.
func (f *file) checkSidecar(idx *grib.Index) {
	for _, ending := range indexSuffixes {
		name := Sidecar(f.path, ending)
		if name == "" {
			continue
		}
		if err := compareIndex(name, f.size, idx); err != nil {
			f.warnings = append(f.warnings, fmt.Sprintf("%s: its index file does not match and is ignored: %v", f.path, err))
		}
	}
}

// compareIndex returns the first difference between an index file and the messages of a
// file. wgrib2 lists the fields of a message in several rows (1.1, 1.2), which have one
// offset; so positions are compared, not numbers of rows.
func compareIndex(name string, size int64, idx *grib.Index) error {
	length := map[int64]int64{} // by place
	for _, m := range idx.Messages {
		length[m.Offset] = m.Length
	}
	listed := map[int64]bool{}
	err := ReadIndex(name, func(row int, r IndexRow) error {
		if r.End() > size {
			return fmt.Errorf("row %d of its index %s ends at byte %d, the file has %d", row, name, r.End(), size)
		}
		n, ok := length[r.Offset]
		switch {
		case !ok:
			return fmt.Errorf("row %d of its index %s lists a message at byte %d, but none begins there", row, name, r.Offset)
		case r.Length > 0 && r.Length != n:
			return fmt.Errorf("row %d of its index %s lists a message of %d bytes at byte %d, but it has %d bytes", row, name, r.Length, r.Offset, n)
		}
		listed[r.Offset] = true
		return nil
	})
	if err == nil && len(listed) < len(length) {
		err = fmt.Errorf("its index %s lists %d of %d messages", name, len(listed), len(length))
	}
	return err
}
