package fio

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
)

// TestMessage extracts fields: each is a file of one field with the same key and
// values, also if several fields share a message. Otherwise the bytes are those of
// the file.
func TestMessage(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	for _, c := range []struct {
		name   string
		fields int
		shared bool // several fields per message
	}{
		{"grib2/multi_field_uv.grib2", 6, true},
		{"grib2/run_length_jma.grib2", 7, true},
		{"grib2/ccsds_cams.grib2", 3, false},
		{"grib1/missing_values_bitmap.grib1", 2, false},
	} {
		t.Run(filepath.Base(c.name), func(t *testing.T) {
			path := filepath.Join(dir, c.name)
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := open(t, Options{}, path)
			defer in.Close()
			entries := in.Catalogue().Entries
			if len(entries) != c.fields {
				t.Fatalf("%d fields, want %d", len(entries), c.fields)
			}
			for _, e := range entries {
				message, err := in.Message(e)
				if err != nil {
					t.Fatal(err)
				}
				whole := file[e.Offset : e.Offset+e.Length]
				if c.shared == bytes.Equal(message, whole) || c.shared && len(message) >= len(whole) {
					t.Errorf("%s: %d bytes of a message of %d", e.Key, len(message), len(whole))
				}
				alone := filepath.Join(t.TempDir(), fmt.Sprintf("%d-%d.grib", e.Message, e.Sub))
				if err := os.WriteFile(alone, message, 0o644); err != nil {
					t.Fatal(err)
				}
				sameField(t, in, e, alone)
			}
		})
	}
}

// sameField compares an entry with the only field of a file.
func sameField(t *testing.T, in *Input, e ensemble.Entry, path string) {
	t.Helper()
	out := open(t, Options{}, path)
	defer out.Close()
	if n := len(out.Catalogue().Entries); n != 1 {
		t.Fatalf("%s: taken out it has %d fields", e.Key, n)
	}
	got := out.Catalogue().Entries[0]
	if got.Identity() != e.Identity() || got.Unit != e.Unit || !got.Grid.SameAs(e.Grid, 0) {
		t.Errorf("taken out %s in %s became %s in %s", e.Key, e.Unit, got.Key, got.Unit)
	}
	a, err := in.ReadOne(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	b, err := out.ReadOne(context.Background(), got)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(a.Values, b.Values, func(x, y float32) bool { return x == y || x != x && y != y }) {
		t.Errorf("%s has other values when taken out", e.Key)
	}
}

func TestMessageRefuses(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	grib := open(t, Options{}, filepath.Join(dir, "grib2/ccsds_cams.grib2"))
	defer grib.Close()
	e := grib.Catalogue().Entries[0]
	e.Message = 99
	if _, err := grib.Message(e); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("a missing message: %v, want exit 66", err)
	}
	nc := open(t, Options{}, filepath.Join(dir, "netcdf/classic_lambert_conformal.nc"))
	defer nc.Close()
	if _, err := nc.Message(nc.Catalogue().Entries[0]); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a field of a NetCDF file: %v, want exit 65", err)
	}
}
