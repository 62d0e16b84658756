package product_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// readBack reads all fields of a file with our own reader.
func readBack(t *testing.T, path string) map[ensemble.Key]*ensemble.Field {
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
	return out
}

// checkField compares a field that was read with what was written.
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

// checkReadBack compares a file with the fields of testProduct that keep wants.
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

// Our own reader gives back the fields that were written, in any order of points
// and whatever the longitudes.
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
