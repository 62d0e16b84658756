package product_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// readBack reads all fields of a file with our own reader.
func readBack(t *testing.T, path string) map[ensemble.Key]*ensemble.Field {
	t.Helper()
	_, fields := readEntries(t, path)
	return fields
}

// readEntries is readBack with the catalogue.
func readEntries(t *testing.T, path string) ([]ensemble.Entry, map[ensemble.Key]*ensemble.Field) {
	t.Helper()
	ctx := context.Background()
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: encoder(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if n := len(in.Catalogue().Unused); n > 0 {
		t.Errorf("%s: %d unused: %+v", path, n, in.Catalogue().Unused)
	}
	out := map[ensemble.Key]*ensemble.Field{}
	err = in.Read(ctx, in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		out[f.Key] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return in.Catalogue().Entries, out
}

// checkField compares a field with the written one.
func checkField(t *testing.T, what string, got map[ensemble.Key]*ensemble.Field, k ensemble.Key, unit string, g *ensemble.Grid, want []float32, tolerance float64) {
	t.Helper()
	f := got[k]
	if f == nil {
		t.Errorf("%s: no field %s", what, k)
		return
	}
	if f.Unit != unit || !f.Grid.SameAs(g, 2e-6) {
		t.Errorf("%s: %s in %q on %v; want %q on %v", what, k, f.Unit, f.Grid, unit, g)
		return
	}
	for i := range want {
		a, b := float64(f.Values[i]), float64(want[i])
		if math.IsNaN(a) != math.IsNaN(b) || math.Abs(a-b) > tolerance {
			t.Errorf("%s: %s is %g at point %d, want %g", what, k, a, i, b)
			return
		}
	}
}

// checkReadBack compares a file with the fields of testProduct for which keep
// returns true.
func checkReadBack(t *testing.T, what, path string, p *product.Product, tolerance float64) {
	t.Helper()
	got := readBack(t, path)
	if len(got) != len(p.Fields) {
		t.Errorf("%s: %d fields, want %d", what, len(got), len(p.Fields))
	}
	for _, f := range p.Fields {
		v, _ := ensemble.VariableNamed(f.Variable)
		k := ensemble.Key{Variable: f.Variable, Level: f.Level, Member: ensemble.NoMember, Product: ensemble.EnsembleMean, Init: p.Init, Lead: f.Lead}
		if f.Kind == product.Spread {
			k.Product = ensemble.Spread
		}
		checkField(t, what, got, k, v.Unit, p.Grid, f.Values, tolerance)
	}
}

// Our own reader returns the written fields, for any order of points and range of
// longitudes.
func TestGRIB2ReadBack(t *testing.T) {
	for _, order := range orders {
		for _, o := range []product.Options{{}, {Scan: product.KeepScan, Packing: "grid_simple"}, {Longitude: product.From180}} {
			p := testProduct(globe(order.src))
			for _, kind := range []product.Kind{product.Mean, product.Spread} {
				q := p.Select(func(f product.Field) bool { return f.Variable == "t" && f.Kind == kind })
				checkReadBack(t, order.name, writeGRIB2(t, p, "t", kind, o), q, quantum)
			}
		}
	}
}

func TestEnsembleReadBack(t *testing.T) {
	f := testForecast(gaussian())
	path := filepath.Join(t.TempDir(), "ens.grib2")
	if err := product.WriteEnsembleGRIB2(context.Background(), encoder(t), path, f, product.Options{}); err != nil {
		t.Fatal(err)
	}
	checkForecast(t, path, f, 1./65535)
}

// checkForecast compares a file with all fields of a forecast.
func checkForecast(t *testing.T, path string, f *ensemble.Forecast, tolerance float64) {
	t.Helper()
	got := readBack(t, path)
	if want := f.Axes.Fields() * len(f.Members); len(got) != want {
		t.Errorf("%d fields, want %d", len(got), want)
	}
	for i, lead := range f.Axes.Leads {
		for m, id := range f.Members {
			for v, name := range f.Axes.Variables {
				for l, level := range f.Axes.Levels {
					q, _ := ensemble.VariableNamed(name)
					k := ensemble.Key{Variable: name, Level: level, Member: id, Init: f.Init, Lead: lead}
					checkField(t, path, got, k, q.Unit, f.Grid, f.Field(i, m, v, l), tolerance)
				}
			}
		}
	}
}

// Clones of real messages of many centres, grids, packings and templates are read
// as the written mean, with the key of the message.
func TestGRIB2CloneReadBack(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	paths, err := filepath.Glob(filepath.Join(dir, "grib2", "*.grib2"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files: %v", err)
	}
	ctx := context.Background()
	cloned := 0
	for _, path := range paths {
		name := filepath.Base(path)
		in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: encoder(t), SkipBad: true})
		if err != nil {
			continue // reduced grids, spectral fields and the like, which are not read
		}
		defer in.Close()
		i := slices.IndexFunc(in.Catalogue().Entries, func(e ensemble.Entry) bool {
			return e.Product != ensemble.OtherProduct && e.Level.Kind != ensemble.OtherLevel
		})
		if i < 0 {
			continue
		}
		e := in.Catalogue().Entries[i]
		f, err := in.ReadOne(ctx, e)
		if err != nil {
			continue // files that cannot be read are tested with the reader
		}
		raw := make([]byte, e.Length)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.ReadAt(raw, e.Offset)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, v := range f.Values {
			if v == v {
				lo, hi = min(lo, float64(v)), max(hi, float64(v))
			}
		}
		p := testProduct(globe(ensemble.SourceOrder{}))
		p.Init, p.Grid = e.Init, e.Grid
		p.Fields = []product.Field{{Variable: e.Variable, Unit: e.Unit, Level: e.Level, Lead: e.Lead, Kind: product.Mean, Values: f.Values,
			Template: raw, Period: time.Duration(e.Interval)}}
		out := filepath.Join(t.TempDir(), name)
		err = product.WriteGRIB2(ctx, encoder(t), out, p, product.Options{})
		if text, ok := uncloneable[name]; ok {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v, want %q", name, err, text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %s: %v", name, e.Key, err)
			continue
		}
		entries, fields := readEntries(t, out)
		k := e.Key
		k.Member, k.Product = ensemble.NoMember, ensemble.EnsembleMean
		// 16 bits over the range, and the rounding of float32.
		checkField(t, name, fields, k, e.Unit, e.Grid, f.Values, (hi-lo)/65535+1e-6*math.Max(math.Abs(lo), math.Abs(hi)))
		if got := entries[0]; got.LevelType != e.LevelType || got.Statistic != e.Statistic || got.Interval != e.Interval || got.Members != 5 {
			t.Errorf("%s: %s %s over %s of %d members; want %s %s over %s of 5", name, got.LevelType, got.Statistic, got.Interval, got.Members, e.LevelType, e.Statistic, e.Interval)
		}
		cloned++
	}
	if cloned < 20 {
		t.Errorf("%d files gave a message to clone, want at least 20", cloned)
	}
}

// uncloneable lists files whose messages ecCodes 2.28 cannot convert to a derived
// forecast, with part of the error.
var uncloneable = map[string]string{
	"jpeg2000_15bit.grib2": "write NetCDF instead",  // its interval is broken
	"multi_field_uv.grib2": "write NetCDF instead",  // two fields in one message
	"run_length_jma.grib2": "nothing was published", // ecCodes crashes
}

func TestNetCDFReadBack(t *testing.T) {
	for _, order := range orders {
		for _, o := range []product.Options{{}, {Profile: product.CDOProfile}, {Longitude: product.From180}} {
			p := testProduct(globe(order.src))
			checkReadBack(t, order.name, writeNetCDF(t, p, o), p, 0)
		}
	}
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Grid = projected(ensemble.SourceOrder{SouthFirst: true, ScanningMode: -1})
	values := make([]float32, p.Grid.Size())
	for i := range values {
		values[i] = float32(i)
	}
	p.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Lead: ensemble.Lead(90 * time.Minute), Kind: product.Spread, Values: values}}
	checkReadBack(t, "projected", writeNetCDF(t, p, product.Options{}), p, 0)
	// A grid of two-dimensional coordinates alone has neither axes nor a mapping.
	p.Grid.X, p.Grid.Y, p.Grid.Mapping = nil, nil, nil
	checkReadBack(t, "curvilinear", writeNetCDF(t, p, product.Options{}), p, 0)
}

func TestEnsembleNetCDFReadBack(t *testing.T) {
	f := testForecast(gaussian())
	path := filepath.Join(t.TempDir(), "ens.nc")
	if err := product.WriteEnsembleNetCDF(context.Background(), encoder(t), path, f, product.Metadata{}, product.Options{}); err != nil {
		t.Fatal(err)
	}
	checkForecast(t, path, f, 0)
}

func TestAnalysesReadBack(t *testing.T) {
	g := gaussian()
	var as []*ensemble.Analysis
	for k := range 3 {
		a := ensemble.NewAnalysis(ensemble.ValidAt(testInit.AddDate(0, 0, 7*k)), []string{"gh", "t"},
			[]ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)}, g)
		for i := range a.Values {
			a.Values[i] = float32(i + k)
		}
		as = append(as, a)
	}
	path := filepath.Join(t.TempDir(), "an.nc")
	if err := product.WriteAnalysesNetCDF(context.Background(), encoder(t), path, as, product.Metadata{}, product.Options{}); err != nil {
		t.Fatal(err)
	}
	got := readBack(t, path)
	if len(got) != 3*2*2 {
		t.Errorf("%d fields, want 12", len(got))
	}
	for _, a := range as {
		for v, name := range a.Variables {
			for l, level := range a.Levels {
				q, _ := ensemble.VariableNamed(name)
				k := ensemble.Key{Variable: name, Level: level, Member: ensemble.NoMember, Init: ensemble.InitAt(a.Valid.Time)}
				checkField(t, a.Valid.String(), got, k, q.Unit, g, a.Field(v, l), 0)
			}
		}
	}
}
