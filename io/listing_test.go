package fio

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// zipped returns a zip archive with one file.
func zipped(t *testing.T, name string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	if _, err := z.Create(name); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// lay writes files to a directory; a name that ends with / is a directory.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The files of a directory are classified as input or ignored.
func TestFolder(t *testing.T) {
	message := string(testgrib.Message{Variable: testgrib.Temperature, Init: time.Unix(0, 0), Values: make([]float32, testgrib.Rows*testgrib.Columns)}.Bytes())
	const input = ""
	rows := map[string]struct{ text, why string }{
		"a.grib2":              {message, input},
		"b.GRB":                {message, input},
		"c.nc":                 {"CDF\x01", input},
		"T1D01010000010100001": {message, input}, // names without a suffix
		"gep01.t00z.f024":      {"ZCZC bulletin\r\n" + message, input},
		"plain":                {"\x89HDF\r\n\x1a\n", input},
		"store.zip":            {zipped(t, "zarr.json"), input},
		"s.zarr/zarr.json":     {"{}", input},
		"old/.zgroup":          {"{}", input},
		"empty.grib2":          {"", input}, // damage of files with a data suffix is reported
		"broken.nc":            {"<html>not found", input},
		"dated.grib2.20260101": {message, input},

		"a.grib2.idx":           {"1:0:d=2026010100:TMP:850 mb:24 hour fcst:", "it begins with"},
		"a.index":               {`{"_offset": 0, "class": "GRIB"}`, "a JSON text"},
		"a.grib2.5b7b6.idx":     {"\x80\x04\x95cfgrib GRIB\x94K\x01K\x02GRIB_paramId", "a Python pickle"},
		"a.grib2.done":          {"", "it is empty"},
		"a.grib2.md5":           {"d41d8cd98f00b204e9800998ecf8427e  a.grib2", "it begins with"},
		"README":                {"All files here are in GRIB format, edition 2. GRIB", "it begins with"},
		"a.grib2.gz":            {"\x1f\x8b...", "a gzip archive"},
		"report.zip":            {zipped(t, "report.docx"), "not a Zarr store"},
		"table.parquet":         {"PAR1", "a Parquet file"},
		"b.grib2.part":          {message, "incomplete"},
		"c.grib2.TMP":           {message, "incomplete"},
		"d.grib2.filepart":      {message, "incomplete"},
		"e.nc.crdownload":       {message, "incomplete"},
		"f.grib2~":              {message, "incomplete"},
		".g.grib2.Xa81bQ":       {message, "hidden"},
		".a.grib2.swp":          {message, "hidden"},
		"2026010100/z.grib2":    {message, "a directory"},
		"table/0.parquet":       {"PAR1", "a directory"},
		"half.zarr.tmp/.zattrs": {"{}", "incomplete"},
	}
	files := map[string]string{}
	for name, r := range rows {
		files[name] = r.text
	}
	dir := lay(t, files)
	for name, to := range map[string]string{"linked.grib2": "a.grib2", "link": "a.grib2", "gone.grib2": "nowhere", "gone": "nowhere", "again": "2026010100"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	rows["linked.grib2"], rows["link"] = struct{ text, why string }{}, struct{ text, why string }{}
	rows["gone.grib2"], rows["gone"] = struct{ text, why string }{}, struct{ text, why string }{"", "broken symbolic link"}
	rows["again"] = struct{ text, why string }{"", "a directory"}
	var want []string
	reasons := map[string]string{}
	for name, r := range rows {
		path, _, _ := strings.Cut(name, "/")
		path = filepath.Join(dir, path)
		if r.why == input {
			want = append(want, path)
		} else {
			reasons[path] = r.why
		}
	}
	slices.Sort(want)
	for _, named := range []string{dir, dir + "/", filepath.Dir(dir) + "/[" + filepath.Base(dir)[:1] + "]" + filepath.Base(dir)[1:]} {
		got, ignored, err := List("--input", []string{named})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v\n got %q\nwant %q", named, err, got, want)
		}
		if len(ignored) != len(reasons) {
			t.Errorf("%s: ignored %v, want %d", named, ignored, len(reasons))
		}
		for _, a := range ignored {
			if why := reasons[a.Path]; why == "" || !strings.Contains(a.Why, why) {
				t.Errorf("%s: ignored as %q, want %q", a.Path, a.Why, why)
			}
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got, _, err := List("--input", []string{link}); err != nil || len(got) != len(want) || filepath.Dir(got[0]) != link {
		t.Errorf("a link to a folder: %v %q", err, got)
	}
	if got, _, err := List("--input", []string{filepath.Join(dir, "s.zarr")}); err != nil || len(got) != 1 {
		t.Errorf("a store by itself: %v %q", err, got)
	}
}

// Names, patterns and directories together, and those without a match.
func TestList(t *testing.T) {
	dir := lay(t, map[string]string{"a.nc": "", "b.nc": "", "c[1].nc": "", "notes.txt": "x", ".h.nc": "", "1/x.nc": "", "2/y.nc": "", ".2.partial-7/y.nc": "", "none/": "", "deep/1/x.nc": "", "ignored/notes.txt": "x"})
	at := func(names ...string) []string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return names
	}
	for _, c := range []struct {
		name           string
		patterns, want []string
		code           exit.Code
		message        string
	}{
		{"a pattern, and one of its files again", at("*.nc", "a.nc"), at("a.nc", "b.nc", "c[1].nc"), exit.OK, ""},
		{"a file, then the folder", at("b.nc", "."), at("b.nc", "a.nc", "c[1].nc"), exit.OK, ""},
		{"a name that could be a pattern", at("c[1].nc"), at("c[1].nc"), exit.OK, ""},
		{"a pattern of folders", at("[12]"), at("1/x.nc", "2/y.nc"), exit.OK, ""},
		{"no dot for a wildcard: products that are being made", at("*/*.nc"), at("1/x.nc", "2/y.nc"), exit.OK, ""},
		{"a dot that is written", at(".2*/*.nc", ".h*"), at(".2.partial-7/y.nc", ".h.nc"), exit.OK, ""},
		{"an empty folder", at("none"), nil, exit.NotYet, "it is empty"},
		{"a folder without input", at("ignored"), nil, exit.NotYet, "notes.txt (it begins with"},
		{"a folder of folders", at("."), at("a.nc", "b.nc", "c[1].nc"), exit.OK, ""},
		{"a folder of folders alone", at("deep"), nil, exit.NotYet, "deep/*\", or wait"},
		{"and the way out", at("deep/*"), at("deep/1/x.nc"), exit.OK, ""},
		{"no such file, and the others", at("z.nc", "1"), at("1/x.nc"), exit.NotYet, "no such file"},
		{"no such folder", at("nowhere"), nil, exit.NotYet, "no such file"},
		{"a pattern in no folder", at("nowhere/*.nc"), nil, exit.NotYet, "its directory cannot be opened"},
		{"no pattern", at("[a"), nil, exit.Usage, "not a valid file pattern"},
	} {
		got, _, err := List("--input", c.patterns)
		if !slices.Equal(got, c.want) || exit.CodeOf(err) != c.code || err != nil && !strings.Contains(messageOf(err), c.message) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// Directories of files in other formats.
func TestListingEnding(t *testing.T) {
	dir := lay(t, map[string]string{"a.sums": "x", "b.sums": "", "c.nc": "CDF\x01", ".d.sums": ""})
	l := Listing{Suffix: ".sums"}
	got, ignored, err := l.List("--join", []string{dir})
	if err != nil || !slices.Equal(got, []string{filepath.Join(dir, "a.sums"), filepath.Join(dir, "b.sums")}) || len(ignored) != 2 {
		t.Errorf("%q, %v, %v", got, ignored, err)
	}
}

// messageOf returns the complete text of an error.
func messageOf(err error) string {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	return strings.Join([]string{e.What, e.At, e.Why, e.Fix}, "\n")
}

// A listing notices changes, and does not read unchanged files again.
func TestListingAgain(t *testing.T) {
	dir := lay(t, map[string]string{"fc1": "GRI", "fc2": "GRIB...\x02", "notes": "x"})
	l := Listing{}
	list := func(want ...string) {
		t.Helper()
		got, _, err := l.List("--input", []string{dir})
		for i, p := range got {
			got[i] = filepath.Base(p)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	list("fc2")
	if err := os.WriteFile(filepath.Join(dir, "fc1"), []byte("GRIB...\x01"), 0o644); err != nil {
		t.Fatal(err)
	}
	list("fc1", "fc2")
	// Other content with the same size and time, in place: only reading the file
	// would show it.
	path := filepath.Join(dir, "fc2")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("12345678"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	list("fc1", "fc2")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	list("fc1")
	if len(l.cache) != 2 {
		t.Errorf("%d files are remembered, want 2", len(l.cache))
	}
}
