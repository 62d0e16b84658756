package fio

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/io/grib"
)

// IndexRow is a row of the index that came with a GRIB file: where a message should lie.
type IndexRow struct {
	Offset, Length int64 // Length 0: the index does not say
}

// End is the last byte that the row is about, and one.
func (r IndexRow) End() int64 { return r.Offset + max(r.Length, 1) }

// Sidecar is the file that goes with another: with an ending behind its name, or in place
// of the name's own; "" if there is none.
func Sidecar(path, ending string) string {
	for _, name := range []string{path + ending, strings.TrimSuffix(path, filepath.Ext(path)) + ending} {
		if s, err := os.Stat(name); name != path && err == nil && s.Mode().IsRegular() {
			return name
		}
	}
	return ""
}

// ReadIndex shows the rows of an index to visit, until it says why not to go on: JSON with
// _offset and _length, as ECMWF writes them, or wgrib2's number:offset:….
//
// Errors: of reading; a row that is neither; what visit says.
func ReadIndex(path string, visit func(row int, r IndexRow) error) error {
	f, err := os.Open(path)
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
			return fmt.Errorf("row %d of its index %s is not understood", row, path)
		}
		if err := visit(row, r); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("its index %s cannot be read: %w", path, err)
	}
	if row == 0 {
		return fmt.Errorf("its index %s has no row", path)
	}
	return nil
}

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

// indexSuffixes are those of indexes that lie beside GRIB files: ECMWF's and wgrib2's.
var indexSuffixes = []string{".index", ".idx"}

// checkSidecar compares the index beside a file with the messages that were found in it. An index
// is a hint only, so that one that does not fit is no fault of the file: it is said and
// ignored.
func (f *file) checkSidecar(idx *grib.Index) {
	for _, ending := range indexSuffixes {
		name := Sidecar(f.path, ending)
		if name == "" {
			continue
		}
		if err := compareIndex(name, f.size, idx); err != nil {
			f.warnings = append(f.warnings, fmt.Sprintf("%s: the index beside it does not fit and is ignored: %v", f.path, err))
		}
	}
}

// compareIndex says where an index and the messages of a file of some size part.
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
			return fmt.Errorf("row %d of its index %s has a message at byte %d, where none begins", row, name, r.Offset)
		case r.Length > 0 && r.Length != n:
			return fmt.Errorf("row %d of its index %s has a message of %d bytes at byte %d, where it has %d", row, name, r.Length, r.Offset, n)
		}
		listed[r.Offset] = true
		return nil
	})
	if err == nil && len(listed) < len(length) {
		err = fmt.Errorf("its index %s lists %d of %d messages", name, len(listed), len(length))
	}
	return err
}
