package product_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// writeZarr writes a product as a store; writeNetCDF's file may be in the same
// directory.
func writeZarr(t *testing.T, path string, p *product.Product, version int, o product.Options) {
	t.Helper()
	if err := product.WriteZarr(path, p, version, o); err != nil {
		t.Fatal(err)
	}
}

// A store of either version has the content of a NetCDF file of the same product,
// in xarray without a warning and in our own reader.
func TestZarrAgreesWithNetCDF(t *testing.T) {
	everything := calibrated(globe(orders[1].src))
	everything.Fields = append(everything.Fields, testProduct(everything.Grid).Fields...)
	flat := testProduct(globe(ensemble.SourceOrder{}))
	flat.Grid = projected(ensemble.SourceOrder{SouthFirst: true, ScanningMode: -1, FirstLon: -2.5625})
	flat.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Lead: testLead, Kind: product.Mean, Values: make([]float32, flat.Grid.Size())}}
	for i := range flat.Fields[0].Values {
		flat.Fields[0].Values[i] = float32(i)
	}
	places := []ensemble.Station{{ID: "10488", Name: "Dresden", Lat: 51.13, Lon: 13.75, Altitude: 230}, {ID: "X1", Lat: -30, Lon: -10, Altitude: 5}}
	sites := testProduct(globe(ensemble.SourceOrder{}))
	sites.Grid, sites.Locations = ensemble.StationGrid(places), places
	sites.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Lead: testLead, Kind: product.Mean, Values: []float32{1, 2}}}
	for name, c := range map[string]struct {
		p *product.Product
		o product.Options
	}{
		"globe": {testProduct(globe(orders[0].src)), product.Options{}}, "all statistics": {everything, product.Options{Longitude: product.From180}},
		"packed": {everything, product.Options{Quantise: 12}}, "projected": {flat, product.Options{}}, "stations": {sites, product.Options{}},
	} {
		nc := writeNetCDF(t, c.p, c.o)
		want := readBack(t, nc)
		for _, version := range []int{2, 3} {
			if version == 3 && c.p.Locations != nil {
				if err := product.WriteZarr(filepath.Join(t.TempDir(), "a.zarr"), c.p, 3, c.o); err == nil {
					t.Error("texts are written in version 3")
				}
				continue
			}
			path := strings.TrimSuffix(nc, ".nc") + ".zarr"
			writeZarr(t, path, c.p, version, c.o)
			got := readBack(t, path)
			if len(got) != len(want) || len(got) == 0 {
				t.Errorf("%s, version %d: %d fields, NetCDF has %d", name, version, len(got), len(want))
			}
			for k, w := range want {
				if g, ok := got[k]; !ok || !slices.EqualFunc(g.Values, w.Values, func(a, b float32) bool { return a == b || a != a && b != b }) {
					t.Errorf("%s, version %d: %s differs from NetCDF", name, version, k)
				}
			}
			var r struct {
				Missing map[string]any
				Types   []string
				Fields  int
			}
			if ask(t, "agree", nc, &r); len(r.Missing) > 0 || len(r.Types) > 0 || r.Fields == 0 {
				t.Errorf("%s, version %d: xarray finds %+v", name, version, r)
			}
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The same product gives the same bytes, and nothing but the store.
func TestZarrBytes(t *testing.T) {
	p := testProduct(globe(orders[0].src))
	dirs := []string{t.TempDir(), t.TempDir()}
	for _, dir := range dirs {
		writeZarr(t, filepath.Join(dir, "a.zarr"), p, 2, product.Options{})
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%v, %v", left, err)
		}
	}
	n := 0
	err := filepath.WalkDir(dirs[0], func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		a, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dirs[1], strings.TrimPrefix(path, dirs[0])))
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", path)
		}
		n++
		return err
	})
	if err != nil || n < 20 {
		t.Errorf("%d files, %v", n, err)
	}
	if err := product.WriteZarr(filepath.Join(dirs[0], "absent", "a.zarr"), p, 2, product.Options{}); err == nil {
		t.Error("a store is written to a missing directory")
	}
}

// Stores are published like files: listed file by file, replaced as a whole, kept
// with other formats, removed when no longer requested.
func TestPublishZarr(t *testing.T) {
	ctx, root := context.Background(), t.TempDir()
	p := testProduct(globe(orders[0].src))
	publish := func(o product.Overwrite, formats ...product.Format) *product.Manifest {
		t.Helper()
		m, _, err := product.Publish(ctx, encoder(t), root, p, product.Publication{Formats: formats, Overwrite: o})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Verify(product.InitDir(root, p.Init)); err != nil {
			t.Error(err)
		}
		return m
	}
	m := publish("", product.Zarr)
	tops := m.TopLevelOutputs()
	if len(tops) == 0 || len(m.Outputs) < 20*len(tops) || !strings.HasSuffix(tops[0], ".zarr") {
		t.Errorf("%d outputs in %q", len(m.Outputs), tops)
	}
	if m := publish("", product.Zarr3); len(m.TopLevelOutputs()) != 2*len(tops) || !slices.Contains(m.Formats, product.Zarr) {
		t.Errorf("of both versions: %q, %q", m.TopLevelOutputs(), m.Formats)
	}
	for i := range p.Fields {
		if p.Fields[i].Kind == product.Mean {
			p.Fields[i].Values = slices.Clone(p.Fields[i].Values)
			p.Fields[i].Values[0]++
		}
	}
	if m := publish(product.OverwriteAlways, product.Zarr); !slices.Equal(m.TopLevelOutputs(), tops) {
		t.Errorf("replaced: %q", m.TopLevelOutputs())
	}
	left, err := filepath.Glob(filepath.Join(product.InitDir(root, p.Init), "*.zarr"))
	if err != nil || len(left) != len(tops) {
		t.Errorf("%q are left, %v", left, err)
	}
}

// GDAL reads axes, unit and values of a store of version 2 without a warning.
func TestZarrInGDAL(t *testing.T) {
	info := tool(t, "gdalmdiminfo")
	path := filepath.Join(t.TempDir(), "p.zarr")
	writeZarr(t, path, testProduct(globe(ensemble.SourceOrder{})), 2, product.Options{})
	var got struct {
		Dimensions []struct{ Type string }
		Unit       string
		Values     [][][][]float64
	}
	if err := json.Unmarshal([]byte(run(t, info, "-detailed", "-array", "t_mean", path)), &got); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, d := range got.Dimensions {
		types = append(types, d.Type)
	}
	if s := strings.Join(types, " "); s != "TEMPORAL VERTICAL HORIZONTAL_Y HORIZONTAL_X" || got.Unit != "K" {
		t.Errorf("dimensions %s, unit %s", s, got.Unit)
	}
	ne, sw := wantMarks(250) // of the lower of two levels
	if v := got.Values[0][0]; math.Abs(v[atNE/36][atNE%36]-ne) > 1e-3 || math.Abs(v[atSW/36][atSW%36]-sw) > 1e-3 {
		t.Errorf("marks %g and %g, want %g and %g", v[atNE/36][atNE%36], v[atSW/36][atSW%36], ne, sw)
	}
}
