package fio

import (
	"context"
	"flag"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

var update = flag.Bool("update", false, "write testdata/zarr.zip again, with xarray of build/venv")

// zarrStores lists the stores and files of testdata/make_zarr.py.
func zarrStores(t *testing.T) string {
	t.Helper()
	if *update {
		if out, err := exec.Command(testdata.Python(t), "testdata/make_zarr.py", testdata.Dir(t, "."), "testdata").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return testdata.Unzip(t, filepath.Join("testdata", "zarr.zip"))
}

// fieldsByKey reads all fields of a file.
func fieldsByKey(t *testing.T, path string) map[ensemble.Key]*ensemble.Field {
	t.Helper()
	in := open(t, Options{}, path)
	out := map[ensemble.Key]*ensemble.Field{}
	err := in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		out[f.Key] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(in.Catalogue().Unused) > 0 {
		t.Errorf("%s: unused %v", filepath.Base(path), in.Catalogue().Unused)
	}
	return out
}

// sameFields compares fields with the expected ones, up to a relative difference.
func sameFields(t *testing.T, name string, got, want map[ensemble.Key]*ensemble.Field, close float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d fields, want %d", name, len(got), len(want))
	}
	for k, w := range want {
		g := got[k]
		if g == nil {
			t.Errorf("%s: no %s", name, k)
			return
		}
		if g.Unit != w.Unit || !g.Grid.SameAs(w.Grid, 1e-6) {
			t.Errorf("%s: %s in %s on %s, want %s on %s", name, k, g.Unit, g.Grid, w.Unit, w.Grid)
			return
		}
		for i, x := range w.Values {
			if y := g.Values[i]; x != y && (x == x || y == y) && !(math.Abs(float64(x-y)) <= close*math.Abs(float64(x))) {
				t.Errorf("%s: point %d of %s is %v, want %v", name, i, k, y, x)
				return
			}
		}
	}
}

// The same data have the same values as Zarr of both versions and as NetCDF: with
// latitudes from the south, dimensions in other orders, shards, initialisations and
// leads as in WeatherBench, packed numbers.
func TestZarrAgreesWithNetCDF(t *testing.T) {
	dir := zarrStores(t)
	for file, stores := range map[string][]string{"wb.nc": {"wb2.zarr", "wb3.zarr"}, "packed.nc": {"packed2.zarr", "packed3.zarr"}} {
		want := fieldsByKey(t, filepath.Join(dir, file))
		if n := map[string]int{"wb.nc": 3*3*4*2 + 3*3*4, "packed.nc": 6}[file]; len(want) != n {
			t.Fatalf("%s: %d fields, want %d", file, len(want), n)
		}
		for _, store := range stores {
			sameFields(t, store, fieldsByKey(t, filepath.Join(dir, store)), want, 0)
		}
	}
	missing := 0
	for _, f := range fieldsByKey(t, filepath.Join(dir, "packed2.zarr")) {
		for _, v := range f.Values {
			if v != v {
				missing++
			}
		}
	}
	if missing != 2 {
		t.Errorf("%d values are missing, want 2", missing)
	}
}

// Real fields that cfgrib and xarray converted from GRIB to Zarr have the same
// values. Doubles are rounded in both.
func TestZarrAgreesWithGRIB(t *testing.T) {
	source := filepath.Join(testdata.Dir(t, "era5-eda"), "era5-eda_z-t_20170101T00-20170102T00.grib")
	got, all := fieldsByKey(t, filepath.Join(zarrStores(t), "era5.zarr")), fieldsByKey(t, source)
	want := map[ensemble.Key]*ensemble.Field{}
	for k, f := range all {
		if k.Member < 2 && got[k] != nil {
			want[k] = f
		}
	}
	if len(want) != 8 {
		t.Fatalf("%d of %d fields are those of the GRIB file, want 8", len(want), len(got))
	}
	sameFields(t, "era5.zarr", got, want, 1e-6)
}

// A window equals the same part of the complete field, also if it needs two
// rectangles.
func TestZarrWindows(t *testing.T) {
	in := open(t, Options{}, filepath.Join(zarrStores(t), "wb3.zarr"))
	entries := in.Catalogue().Entries[:7]
	for _, w := range []ensemble.Window{{Rows: [2]int{1, 4}, Cols: [2]int{2, 7}}, {Rows: [2]int{0, 7}, Cols: [2]int{6, 8}}, {Rows: [2]int{6, 7}, Cols: [2]int{0, 1}}} {
		var whole [][]float32
		if err := in.Read(context.Background(), entries, func(_ int, f *ensemble.Field) error {
			whole = append(whole, ensemble.CropField(f.Values, f.Grid, w))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := in.ReadWindow(context.Background(), entries, w, func(i int, f *ensemble.Field) error {
			if !slices.EqualFunc(f.Values, whole[i], func(a, b float32) bool { return a == b || a != a && b != b }) {
				t.Errorf("window %+v of %s: %v, want %v", w, f.Key, f.Values, whole[i])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// Absent chunks are detected before a field is used, and named. In a sparse store
// they are missing values. A store that changes is rejected.
func TestZarrAbsentChunk(t *testing.T) {
	path := filepath.Join(zarrStores(t), "wb2.zarr")
	whole := func(o Options, want string) {
		t.Helper()
		if why, err := CheckComplete(path, o); err != nil || why != want {
			t.Errorf("whole: %q, %v, want %q", why, err, want)
		}
	}
	whole(Options{}, "")
	if err := os.Remove(filepath.Join(path, "temperature", "1.0.1.0.0.0")); err != nil {
		t.Fatal(err)
	}
	whole(Options{}, "array temperature, chunk temperature/1.0.1.0.0.0 is absent")
	whole(Options{Sparse: true}, "")
	in := open(t, Options{}, path)
	err := in.Read(context.Background(), in.Catalogue().Entries, func(int, *ensemble.Field) error { return nil })
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "array temperature, chunk temperature/1.0.1.0.0.0") {
		t.Errorf("an absent chunk: %v", err)
	}
	in = open(t, Options{Sparse: true}, path)
	empty := 0
	if err := in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		if !slices.ContainsFunc(f.Values, func(v float32) bool { return v == v }) {
			empty++
		}
		return nil
	}); err != nil || empty != 2*1*2 { // one lead of a chunk of two initialisations and three leads exists
		t.Errorf("%d fields are missing, %v", empty, err)
	}
	entry := in.Catalogue().Entries[0]
	if err := os.Remove(filepath.Join(path, "latitude", ".zarray")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadOne(context.Background(), entry); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a store that changed: %v", err)
	}
	if _, err := Open(context.Background(), []string{path}, Options{Pool: children(t)}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "latitude") {
		t.Errorf("a store without an array that its consolidated metadata list: %v", err)
	}
	absent := filepath.Join(zarrStores(t), "wb2.zarr")
	if err := os.Remove(filepath.Join(absent, "longitude", "0")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), []string{absent}, Options{Pool: children(t)}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "array longitude, chunk longitude/0") {
		t.Errorf("an absent chunk of a coordinate: %v", err)
	}
}
