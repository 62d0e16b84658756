package fio

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// readAll opens files and decodes all fields. It returns their number and the
// error.
func readAll(t *testing.T, o Options, paths ...string) (fields int, err error) {
	t.Helper()
	o.Pool = children(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	in, err := Open(ctx, paths, o)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if len(in.Catalogue().Entries) == 0 && len(in.Catalogue().Unused) > 0 {
		u := in.Catalogue().Unused[0]
		return 0, &exit.Error{Code: exit.BadData, What: "no usable field", At: u.File, Why: u.Reason}
	}
	var first error
	for _, e := range in.Catalogue().Entries {
		if _, err := in.ReadOne(ctx, e); err != nil {
			first = errors.Join(first, err)
			continue
		}
		fields++
	}
	return fields, first
}

// TestBroken reads every damaged file without hang or panic: class "fail" gives an
// error, "recover" the valid messages, "read" all fields.
func TestBroken(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t, "broken"), "derived")
	b, err := os.ReadFile(filepath.Join(dir, "table.json"))
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]json.RawMessage
	if err := json.Unmarshal(b, &table); err != nil {
		t.Fatal(err)
	}
	good, total := 0, 0
	for name, raw := range table {
		var row struct{ Expect, Defect string }
		if json.Unmarshal(raw, &row) != nil || row.Expect == "" {
			continue
		}
		total++
		begin := time.Now()
		n, err := readAll(t, Options{SkipBad: row.Expect == "recover"}, filepath.Join(dir, name))
		if d := time.Since(begin); d > 2*time.Minute {
			t.Errorf("%s took %s", name, d)
		}
		code := exit.CodeOf(err)
		if err != nil && (code == exit.Bug || !strings.Contains(err.Error(), filepath.Base(name))) {
			t.Errorf("%s: an error without code or file: %v", name, err)
			continue
		}
		ok := true
		switch row.Expect {
		case "fail":
			ok = err != nil
		case "recover":
			ok = n > 0
		case "read":
			ok = err == nil && n > 0
		}
		if !ok {
			t.Errorf("%s (%s, %s): %d fields, error %v", name, row.Expect, row.Defect, n, err)
		}
		if ok {
			good++
		}
	}
	t.Logf("%d of %d behave as the table expects", good, total)
}

func TestRealBrokenFiles(t *testing.T) {
	dir := filepath.Join(testdata.Dir(t, "broken"), "real")
	for _, c := range []struct {
		file   string
		skip   bool
		fields int
		code   exit.Code
	}{
		{"era5-levels-corrupted.grib", false, 0, exit.BadData},
		{"era5-levels-corrupted.grib", true, 1, exit.OK},
		{"regular_gg_wrong_increment.grib", false, 0, exit.BadData}, // 192 x 64 points and 18432 values
		{"regular_ll_wrong_increment.grib", false, 0, exit.BadData}, // rows of 5 degrees by their corners, of 2 by Dj: which is wrong the file does not say
		{"empty_file.grib", false, 0, exit.BadData},
		{"t_year_missing.grib", false, 0, exit.BadData},
		{"tilde_shortname.grib", false, 1, exit.OK},
		{"test_padding.grib", false, 2, exit.OK},
		{"bad_cdf5_begin.nc", false, 0, exit.BadData},
	} {
		n, err := readAll(t, Options{SkipBad: c.skip}, filepath.Join(dir, c.file))
		if n != c.fields || exit.CodeOf(err) != c.code {
			t.Errorf("%s: %d fields, error %v; want %d, code %d", c.file, n, err, c.fields, c.code)
		}
	}
}

func TestWrongKindsOfInput(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	children(t)
	for _, c := range []struct {
		path string
		code exit.Code
		word string
	}{
		{filepath.Join(dir, "absent.grib"), exit.NotYet, "not found"},
		{dir, exit.BadData, "directory"},
		{put("empty.grib", ""), exit.BadData, "empty"},
		{put("page.nc", "<!DOCTYPE html><html>404</html>"), exit.BadData, "HTML"},
		{put("a.grib.gz", "\x1f\x8b\x08\x00 some bytes"), exit.BadData, "gzip"},
		{put("weights.pt", "\x80\x02}q\x00."), exit.BadData, "pickle"},
		{put("noise.grib", strings.Repeat("no message here ", 100)), exit.BadData, "begins with"},
		{put("short.nc", "CDF\x01"), exit.BadData, "ends inside the header"},
		{"/dev/null", exit.BadData, "regular file"},
	} {
		_, err := Open(context.Background(), []string{c.path}, Options{Pool: children(t)})
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v; want code %d and %q", c.path, err, c.code, c.word)
		}
	}
}

// TestTruncatedGRIB truncates a file at many offsets: always exit 65 with message
// and byte, never silently fewer fields.
func TestTruncatedGRIB(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(testdata.Dir(t, "era5-eda"), "era5-eda_z-t_20170101T00-20170102T00.grib"))
	if err != nil {
		t.Fatal(err)
	}
	const message = 14752
	if string(b[message:message+4]) != "GRIB" {
		t.Fatal("the messages of the test file have another length")
	}
	path := filepath.Join(t.TempDir(), "cut.grib")
	for _, n := range []int{message + 1, message + 4, message + 9, message + 60, message + 100, 2*message - 12, 2*message - 4, 2*message - 1} {
		if err := os.WriteFile(path, b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := Open(context.Background(), []string{path}, Options{Pool: children(t)})
		if n < message+4 {
			continue // shorter than "GRIB": junk
		}
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "message 2, byte 14752") {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
}

// The order of files does not change the catalogue.
func TestShuffledFilesGiveTheSameCatalogue(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	paths, err := filepath.Glob(filepath.Join(dir, "per_member", "*.grib1"))
	if err != nil || len(paths) != 6 {
		t.Fatal(paths, err)
	}
	steps, err := filepath.Glob(filepath.Join(dir, "per_step", "*.grib1"))
	if err != nil || len(steps) != 3 {
		t.Fatal(steps, err)
	}
	paths = append(paths, steps...)
	a := open(t, Options{}, paths...).Catalogue()
	reverse := make([]string, len(paths))
	for i, p := range paths {
		reverse[len(paths)-1-i] = p
	}
	b := open(t, Options{}, reverse...).Catalogue()
	if len(a.Entries) != 24 || len(a.Entries) != len(b.Entries) {
		t.Fatalf("%d and %d entries", len(a.Entries), len(b.Entries))
	}
	for i := range a.Entries {
		x, y := a.Entries[i], b.Entries[i]
		k, l := *x.Kind, *y.Kind
		k.Grid, l.Grid, x.Kind, y.Kind = nil, nil, nil, nil
		if x != y || k != l {
			t.Fatalf("entry %d: %v and %v", i, x.Key, y.Key)
		}
	}
	if m := a.Members(); len(m) != 7 || m[0] != ensemble.NoMember || m[1] != 0 {
		t.Errorf("members %v", m)
	}
}
