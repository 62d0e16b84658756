// Package era5 reads a real ensemble in GRIB edition 1, computes the published features from it, and publishes its
// spread.
package era5

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// summary is the summary of a field in expected.json.
type summary struct {
	Mean, RMS, Max float64
	Marks          []float64
}

// expected is the content of expected.json, written by make_expected.py.
type expected struct {
	Marks  [][2]int // row from the north, column from 0° E
	Spread []struct {
		Variable     string
		Level        int `json:"level_hPa"`
		Time         time.Time
		Mean, Spread summary
	}
	Features []struct {
		Channel string
		Level   int `json:"level_hPa"`
		summary
	}
}

var axes = ensemble.Axes{Variables: []string{"t", "z"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)}, Leads: []ensemble.Lead{0}}

func newPool(t *testing.T) *decode.Pool {
	t.Helper()
	pool, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// open opens files for the time of the test.
func open(t *testing.T, pool *decode.Pool, files ...string) *fio.Input {
	t.Helper()
	in, err := fio.Open(context.Background(), files, fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return in
}

// load reads the three times, each as a forecast of lead 0.
func load(t *testing.T, pool *decode.Pool) []*ensemble.Forecast {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testdata.Dir(t, "era5-eda"), "*.grib"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	in := open(t, pool, files...)
	c := in.Catalogue()
	members := c.Members()
	if c.Messages != 120 || len(c.Entries) != 120 || len(c.Unused) != 0 || len(members) != 10 || len(c.Inits()) != 3 || !slices.Equal(c.Leads(), axes.Leads) {
		t.Fatalf("%d messages, %d used, %d unused, members %v, inits %v, leads %v", c.Messages, len(c.Entries), len(c.Unused), members, c.Inits(), c.Leads())
	}
	if g := c.Entries[0].Grid; g.NX != 120 || g.NY != 61 || g.Lat[0] != 90 || g.Lon[0] != 0 {
		t.Fatalf("grid %v", g)
	}
	var out []*ensemble.Forecast
	byInit := map[ensemble.Init]*ensemble.Forecast{}
	for _, init := range c.Inits() {
		byInit[init] = ensemble.NewForecast(init, axes, members, c.Entries[0].Grid)
		out = append(out, byInit[init])
	}
	if err := in.Read(context.Background(), c.Entries, func(_ int, f *ensemble.Field) error { return byInit[f.Key.Init].Put(f) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func readExpected(t *testing.T) *expected {
	t.Helper()
	text, err := os.ReadFile("expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var e expected
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Spread) != 12 || len(e.Features) != 8 || len(e.Marks) != 4 {
		t.Fatalf("%d spreads, %d features, %d marks", len(e.Spread), len(e.Features), len(e.Marks))
	}
	return &e
}

// compare checks a field. Fields are single precision, so tolerances are a few roundings of the largest value in
// the computation: size.
func (e *expected) compare(t *testing.T, name string, field []float32, g *ensemble.Grid, want summary, size float64) {
	t.Helper()
	tolerance := 4 * size / (1 << 24)
	w := g.Weights()
	var sum, sq, area float64
	largest := math.Inf(-1)
	for p, x := range field {
		area += w[p]
		sum += w[p] * float64(x)
		sq += w[p] * float64(x) * float64(x)
		largest = max(largest, float64(x))
	}
	check := func(what string, got, want float64) {
		if !(math.Abs(got-want) <= tolerance+1e-8*math.Abs(want)) {
			t.Errorf("%s, %s: %.9g, want %.9g", name, what, got, want)
		}
	}
	check("mean", sum/area, want.Mean)
	check("rms", math.Sqrt(sq/area), want.RMS)
	check("max", largest, want.Max)
	for i, at := range e.Marks {
		check("mark", float64(field[at[0]*g.NX+at[1]]), want.Marks[i])
	}
}

// positions are the first n members.
func positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// statistics are mean and spread of all ten members for a row of expected.json.
func statistics(t *testing.T, all []*ensemble.Forecast, variable string, level int, at time.Time) (fc *ensemble.Forecast, mean, std []float32) {
	t.Helper()
	i := slices.IndexFunc(all, func(f *ensemble.Forecast) bool { return f.Init.Equal(at) })
	if i < 0 {
		t.Fatalf("no fields of %s", at)
	}
	fc = all[i]
	mean, std = make([]float32, fc.Grid.Size()), make([]float32, fc.Grid.Size())
	fc.MeanStd(mean, std, 0, slices.Index(axes.Variables, variable), slices.Index(axes.Levels, ensemble.PressureLevel(float64(level))), positions(10), 1)
	return fc, mean, std
}

func TestSpread(t *testing.T) {
	all := load(t, newPool(t))
	e := readExpected(t)
	for _, want := range e.Spread {
		fc, mean, std := statistics(t, all, want.Variable, want.Level, want.Time)
		name := want.Variable + " at " + fc.Init.String()
		e.compare(t, "mean of "+name, mean, fc.Grid, want.Mean, want.Mean.Max)
		e.compare(t, "spread of "+name, std, fc.Grid, want.Spread, want.Spread.Max)
	}
}

// TestFeatures: the published channels from the available data: spread over five members with divisor 5, and the
// standardised first trajectory, of each variable at the only lead. Scales come from the first two times, channels
// from the third.
func TestFeatures(t *testing.T) {
	all := load(t, newPool(t))
	e := readExpected(t)
	f := ensemble.Features{Axes: axes, Aggregates: []ensemble.Aggregate{ensemble.UsedSpread, ensemble.FirstMember}}
	used := positions(5)
	if err := f.Fit(all[:2], used, ensemble.GlobalStandard, ensemble.LASOptions{}); err != nil {
		t.Fatal(err)
	}
	if f.Channels() != 4 {
		t.Fatalf("%d channels, want 4", f.Channels())
	}
	n, d := all[2].Grid.Size(), len(axes.Levels)
	x := make([]float32, f.Channels()*d*n)
	if err := f.Build(x, all[2], used); err != nil {
		t.Fatal(err)
	}
	at := 0
	for c := range f.Channels() {
		for l := range d {
			want := e.Features[at]
			if name := f.ChannelName(c); name != want.Channel || axes.Levels[l] != ensemble.PressureLevel(float64(want.Level)) {
				t.Fatalf("channel %d level %d is %q at %s, expected %q at %d hPa", c, l, name, axes.Levels[l], want.Channel, want.Level)
			}
			e.compare(t, want.Channel, x[at*n:(at+1)*n], all[2].Grid, want.summary, math.Max(1, want.Max))
			at++
		}
	}
}

// TestSpreadFieldOut writes the spread as NetCDF and as GRIB2 and reads it again: identical in NetCDF, to 16 bits
// of its range in GRIB2, with time, level and statistic.
func TestSpreadFieldOut(t *testing.T) {
	pool := newPool(t)
	all := load(t, pool)
	e := readExpected(t)
	root := t.TempDir()
	var files []string
	for _, fc := range all {
		p := &product.Product{Init: fc.Init, Grid: fc.Grid, Metadata: product.Metadata{
			Title: "Spread of the ERA5 ensemble of data assimilations", Institution: "ECMWF",
			Source: "ERA5 ensemble of data assimilations, ten members", ForecastType: "analysis ensemble",
			License: "contains modified Copernicus Climate Change Service information",
			Members: fc.Members, DDOF: 1, Control: "include"}}
		for _, row := range e.Spread {
			if !fc.Init.Equal(row.Time) {
				continue
			}
			_, mean, std := statistics(t, all, row.Variable, row.Level, row.Time)
			for kind, values := range map[product.Kind][]float32{product.RawMean: mean, product.RawSpread: std} {
				p.Fields = append(p.Fields, product.Field{Variable: row.Variable, Level: ensemble.PressureLevel(float64(row.Level)), Kind: kind, Values: values})
			}
		}
		m, _, err := product.Publish(context.Background(), pool, root, p, product.Publication{Formats: []product.Format{product.NetCDF, product.GRIB2}})
		if err != nil {
			t.Fatal(err)
		}
		if m.MembersExpected != 10 || m.Status != "ok" {
			t.Errorf("manifest has %d members expected, status %s", m.MembersExpected, m.Status)
		}
		for _, f := range m.Outputs {
			files = append(files, filepath.Join(product.InitDir(root, fc.Init), f.Path))
		}
	}
	for _, format := range []struct {
		suffix string
		bits   int // of the range; 0 is exact
	}{{".nc", 0}, {".grib2", 16}} {
		in := open(t, pool, slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !strings.HasSuffix(f, format.suffix) })...)
		found := 0
		err := in.Read(context.Background(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
			if f.Key.Product != ensemble.Spread && f.Key.Product != ensemble.EnsembleMean {
				t.Errorf("%s: %s is not a statistic", format.suffix, f.Key)
				return nil
			}
			if f.Key.Lead != 0 {
				t.Errorf("%s: %s has a lead", format.suffix, f.Key)
			}
			found++
			_, mean, std := statistics(t, all, f.Key.Variable, int(f.Key.Level.Value/100), f.Key.Init.Time)
			want := std
			if f.Key.Product == ensemble.EnsembleMean {
				want = mean
			}
			var tolerance float64
			if format.bits > 0 {
				tolerance = float64(slices.Max(want)-slices.Min(want)) / float64(int(1)<<format.bits)
			}
			for p, x := range f.Values {
				if d := math.Abs(float64(x) - float64(want[p])); !(d <= tolerance) {
					t.Fatalf("%s: %s, point %d: %g, want %g", format.suffix, f.Key, p, x, want[p])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if found != 24 {
			t.Errorf("%s: %d fields were read, want 24", format.suffix, found)
		}
	}
}
