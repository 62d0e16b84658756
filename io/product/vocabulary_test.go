package product_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/product"
)

// eccodesNames gives the short name and the unit of ecCodes for each variable of the
// vocabulary in edition 2. ecCodes 2.28 has no name of its own for the maximum of
// gusts, which the step type states.
//
// Source: parameter database of ECMWF (codes.ecmwf.int/grib/param-db).
var eccodesNames = map[string][2]string{
	"t": {"t", "K"}, "gh": {"gh", "gpm"}, "z": {"z", "m**2 s**-2"}, "u": {"u", "m s**-1"}, "v": {"v", "m s**-1"}, "w": {"w", "Pa s**-1"}, "q": {"q", "kg kg**-1"}, "r": {"r", "%"},
	"d": {"d", "s**-1"}, "vo": {"vo", "s**-1"}, "2t": {"2t", "K"}, "2d": {"2d", "K"}, "10u": {"10u", "m s**-1"}, "10v": {"10v", "m s**-1"}, "10si": {"10si", "m s**-1"}, "10fg": {"i10fg", "m s**-1"},
	"msl": {"msl", "Pa"}, "sp": {"sp", "Pa"}, "skt": {"skt", "K"}, "tp": {"tp", "kg m**-2"}, "cp": {"cp", "kg m**-2"}, "sst": {"sst", "K"}, "tcw": {"tcw", "kg m**-2"}, "tcwv": {"tcwv", "kg m**-2"},
	"tcc": {"tcc", "%"}, "sund": {"sund", "s"},
}

// describe returns what ecCodes reports about the first message of a file.
func describe(t *testing.T, path string, length int64) grib.Description {
	t.Helper()
	var out []grib.Description
	batch := grib.Batch{Path: path, Fields: []grib.Ref{{Length: length}}}
	if err := encoder(t).Do(t.Context(), decode.Call{Kind: grib.DescribeKind, File: path, Args: batch, Result: &out}); err != nil || len(out) != 1 {
		t.Fatalf("%v: %d descriptions", err, len(out))
	}
	return out[0]
}

// TestVocabulary: each variable that a product has in GRIB2 and in NetCDF is read back
// as the same quantity, unit, level, interval and values, and ecCodes has its name
// and unit for it.
func TestVocabulary(t *testing.T) {
	for _, v := range ensemble.Variables {
		for _, kind := range []product.Kind{product.Mean, product.Spread, product.Member, product.Probability} {
			t.Run(v.Name+"_"+map[product.Kind]string{product.Mean: "mean", product.Spread: "spread", product.Member: "member", product.Probability: "probability"}[kind], func(t *testing.T) {
				p := testProduct(globe(ensemble.SourceOrder{}))
				f := product.Field{Variable: v.Name, Level: v.Level, Lead: ensemble.Lead(24 * time.Hour), Kind: kind, Members: 5}
				if v.OnManyLevels() {
					f.Level = ensemble.PressureLevel(850)
				}
				if v.Period != "" {
					f.Period = 24 * time.Hour
				}
				for i := range p.Grid.Size() {
					f.Values = append(f.Values, float32(i%10)/16)
				}
				k := ensemble.Key{Variable: v.Name, Level: f.Level, Member: ensemble.NoMember, Product: ensemble.EnsembleMean, Init: p.Init, Lead: f.Lead}
				unit := v.Unit
				switch kind {
				case product.Spread:
					k.Product = ensemble.Spread
				case product.Member:
					k.Product, k.Member, f.Member = ensemble.MemberField, 3, 3
				case product.Probability:
					f.Event = ensemble.Event{Relation: ensemble.Above, Lower: 0.5}
					k.Product, k.Event, unit = ensemble.Probability, f.Event, "1"
				}
				p.Fields = []product.Field{f}
				dir := t.TempDir()
				for _, path := range []string{filepath.Join(dir, "p.grib2"), filepath.Join(dir, "p.nc")} {
					write := product.WriteNetCDF
					if filepath.Ext(path) == ".grib2" {
						write = product.WriteGRIB2
					}
					if err := write(context.Background(), encoder(t), path, p, product.Options{Packing: "grid_simple"}); err != nil {
						t.Fatal(err)
					}
					entries, fields := readEntries(t, path)
					// 16 bits over a range of 9/16, in per cent for cloud cover.
					checkField(t, path, fields, k, unit, p.Grid, f.Values, 1e-5)
					if e := entries[0]; e.Interval != ensemble.Lead(f.Period) || e.Statistic != v.Period || len(entries) != 1 {
						t.Errorf("%s: %s over %s, want %s over %s; %d fields", path, e.Statistic, e.Interval, v.Period, f.Period, len(entries))
					}
					if filepath.Ext(path) == ".grib2" {
						d := describe(t, path, entries[0].Length)
						if want := map[string]string{"": "instant", "sum": "accum", "maximum": "max"}[v.Period]; d.Statistic != want {
							t.Errorf("ecCodes: step type %s, want %s", d.Statistic, want)
						}
						if want := eccodesNames[v.Name]; kind != product.Probability && (d.Name != want[0] || d.Unit != want[1]) {
							t.Errorf("ecCodes: %s in %q, want %s in %q; level %s", d.Name, d.Unit, want[0], want[1], d.LevelType)
						}
					}
				}
			})
		}
	}
}

// TestCloneUnit: a clone has the values in the unit of its template.
func TestCloneUnit(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	values := make([]float32, p.Grid.Size())
	for i := range values {
		values[i] = float32(i % 10)
	}
	p.Fields = []product.Field{{Variable: "tcc", Level: ensemble.Level{Kind: ensemble.Surface}, Lead: ensemble.Lead(6 * time.Hour), Kind: product.Mean, Values: values}}
	for i := range values {
		values[i] /= 10
	}
	first := filepath.Join(t.TempDir(), "first.grib2")
	if err := product.WriteGRIB2(t.Context(), encoder(t), first, p, product.Options{Packing: "grid_simple"}); err != nil {
		t.Fatal(err)
	}
	in, err := fio.Open(t.Context(), []string{first}, fio.Options{Pool: encoder(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	e := in.Catalogue().Entries[0]
	message, err := in.Message(e)
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[product.Kind]ensemble.Product{product.Mean: ensemble.EnsembleMean, product.Spread: ensemble.Spread} {
		f := p.Fields[0]
		f.Kind, f.Template, f.TemplateUnit = kind, message, e.NativeUnit
		q := *p
		q.Fields = []product.Field{f}
		out := filepath.Join(t.TempDir(), "clone.grib2")
		if err := product.WriteGRIB2(t.Context(), encoder(t), out, &q, product.Options{Packing: "grid_simple"}); err != nil {
			t.Fatal(err)
		}
		k := e.Key
		k.Product = want
		checkField(t, "clone", readBack(t, out), k, "1", p.Grid, values, 1e-5)
	}
	if math.Abs(float64(values[9])-0.9) > 1e-6 {
		t.Errorf("the values of the product changed to %g", values[9])
	}
}

// TestLayers: all formats keep both bounds of a layer, of one and of several on an axis, and depths.
func TestLayers(t *testing.T) {
	for _, l := range []ensemble.Level{ensemble.Layer(ensemble.Pressure, 50000, 85000), ensemble.Layer(ensemble.HeightAboveSoil, 0, 3000), ensemble.Layer(ensemble.DepthBelowLand, 0.07, 0.28),
		{Kind: ensemble.DepthBelowLand, Value: 0.05}} {
		p := testProduct(globe(ensemble.SourceOrder{}))
		p.Fields = []product.Field{{Variable: "t", Level: l, Lead: ensemble.Lead(6 * time.Hour), Kind: product.Mean, Values: make([]float32, p.Grid.Size())}}
		path := filepath.Join(t.TempDir(), "layer.grib2")
		if err := product.WriteGRIB2(t.Context(), encoder(t), path, p, product.Options{}); err != nil {
			t.Fatal(err)
		}
		if entries, _ := readEntries(t, path); entries[0].Level != l {
			t.Errorf("%s is read as %s", l, entries[0].Level)
		}
		checkLayers(t, p)
		next := p.Fields[0]
		if next.Level.Value, next.Level.End = l.End, 2*l.End; !l.IsLayer {
			next.Level.Value = 2 * l.Value
		}
		p.Fields = append(p.Fields, next)
		checkLayers(t, p)
	}
}

// checkLayers writes a product as NetCDF in both profiles and as Zarr, and compares the levels that are read.
func checkLayers(t *testing.T, p *product.Product) {
	t.Helper()
	var want []ensemble.Level
	for _, f := range p.Fields {
		want = append(want, f.Level)
	}
	for name, write := range map[string]func(path string) error{
		"x.nc": func(path string) error {
			return product.WriteNetCDF(t.Context(), encoder(t), path, p, product.Options{})
		},
		"cdo.nc": func(path string) error {
			return product.WriteNetCDF(t.Context(), encoder(t), path, p, product.Options{Profile: product.CDOProfile})
		},
		"x.zarr":   func(path string) error { return product.WriteZarr(path, p, 2, product.Options{}) },
		"x-3.zarr": func(path string) error { return product.WriteZarr(path, p, 3, product.Options{}) },
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := write(path); err != nil {
			t.Fatal(err)
		}
		entries, _ := readEntries(t, path)
		var got []ensemble.Level
		for _, e := range entries {
			got = append(got, e.Level)
		}
		if !slices.Contains(got, want[0]) || !slices.Contains(got, want[len(want)-1]) || len(got) != len(want) {
			t.Errorf("%s: %v is read as %v", name, want, got)
		}
	}
}
