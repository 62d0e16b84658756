package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/product"
)

// globalGrid is a grid of 15 by 10 degrees.
func globalGrid() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 36, NY: 13}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-15*float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, 10*float64(i))
	}
	return g
}

// pacificGrid is a grid of 2 degrees across the date line.
func pacificGrid() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 11, NY: 6}
	for j := range g.NY {
		g.Lat = append(g.Lat, 60-2*float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, 170+2*float64(i))
	}
	g.Source.FirstLon = 170
	return g
}

// forecastOf is a forecast with fields of all kinds at two leads. Each value is another; the first point of each is missing.
func forecastOf(init time.Time, g *ensemble.Grid) *product.Product {
	p := &product.Product{Init: ensemble.InitAt(init), Grid: g, Metadata: product.Metadata{Title: "Forecast", Members: []ensemble.Member{0, 1, 2}, DDOF: 1, Control: "include", Version: "0.1.0", ModelChecksum: "sha256:00ff"}}
	add := func(f product.Field, base, step float64) {
		f.Values = make([]float32, g.Size())
		for i := range f.Values {
			f.Values[i] = float32(base + step*float64(len(p.Fields)*g.Size()+i))
		}
		f.Values[0] = float32(math.NaN())
		p.Fields = append(p.Fields, f)
	}
	t2m := ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}
	for _, hours := range []int{24, 48} {
		lead := ensemble.Lead(time.Duration(hours) * time.Hour)
		for _, hPa := range []float64{850, 500} {
			add(product.Field{Variable: "t", Level: ensemble.PressureLevel(hPa), Lead: lead, Kind: product.Mean}, 250, 1e-3)
			add(product.Field{Variable: "t", Level: ensemble.PressureLevel(hPa), Lead: lead, Kind: product.Spread}, 1, 1e-4)
		}
		add(product.Field{Variable: "2t", Level: t2m, Lead: lead, Kind: product.Mean}, 280, 1e-3)
		add(product.Field{Variable: "2t", Level: t2m, Lead: lead, Kind: product.EnsembleSpread}, 1, 1e-4)
		add(product.Field{Variable: "tp", Level: ensemble.Level{Kind: ensemble.Surface}, Lead: lead, Kind: product.Mean, Period: time.Duration(hours) * time.Hour, Method: "sum"}, 1, 1e-4)
		for _, q := range []float64{0.1, 0.9} {
			add(product.Field{Variable: "2t", Level: t2m, Lead: lead, Kind: product.Quantile, Below: q}, 270+10*q, 1e-3)
		}
		add(product.Field{Variable: "2t", Level: t2m, Lead: lead, Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Below, Upper: 273.15}}, 0, 1e-6)
		for _, m := range []ensemble.Member{0, 1, 2} {
			add(product.Field{Variable: "2t", Level: t2m, Lead: lead, Kind: product.Member, Member: m}, 275, 1e-3)
		}
	}
	return p
}

// Initialisations of forecastSite.
var (
	globalInit  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	pacificInit = globalInit.Add(-12 * time.Hour)
)

// forecastSite publishes two initialisations as `ensemble predict` does, the newest on the global grid, in some formats; none: NetCDF.
func forecastSite(t testing.TB, formats ...product.Format) (root string, global, pacific *product.Product) {
	t.Helper()
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{Children: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	root = filepath.Join(t.TempDir(), "products")
	global, pacific = forecastOf(globalInit, globalGrid()), forecastOf(pacificInit, pacificGrid())
	for _, p := range []*product.Product{global, pacific} {
		if _, _, err := product.Publish(t.Context(), pool, root, p, product.Publication{Formats: formats}); err != nil {
			t.Fatal(err)
		}
	}
	return root, global, pacific
}

// coverage is what tests read of CoverageJSON.
type coverage struct {
	Type      string
	Coverages []coverage
	Domain    struct {
		Type, DomainType string
		Axes             struct {
			X, Y, Z struct{ Values []float64 }
			T       struct{ Values []string }
		}
		Referencing []struct {
			Coordinates []string
			System      struct{ Type, ID string }
		}
	}
	Parameters map[string]struct {
		Type string
		Unit struct {
			Symbol struct{ Value, Type string }
		}
		ObservedProperty struct {
			ID    string
			Label map[string]string
		}
	}
	Ranges map[string]struct {
		Type, DataType string
		AxisNames      []string
		Shape          []int
		Values         []*float32
	}
	Ensemble map[string]string
}

// all lists the coverages of an answer.
func (c coverage) all() []coverage {
	if c.Type == "CoverageCollection" {
		return c.Coverages
	}
	return []coverage{c}
}

// check reports members that the standards require.
func (c coverage) check(t *testing.T) {
	t.Helper()
	for _, c := range c.all() {
		sizes := map[string]int{"t": len(c.Domain.Axes.T.Values), "z": len(c.Domain.Axes.Z.Values), "y": len(c.Domain.Axes.Y.Values), "x": len(c.Domain.Axes.X.Values)}
		if c.Type != "Coverage" || c.Domain.Type != "Domain" || !slices.Contains([]string{"Grid", "PointSeries", "VerticalProfile"}, c.Domain.DomainType) || sizes["t"]*sizes["y"]*sizes["x"] == 0 || len(c.Ranges) == 0 || len(c.Ranges) != len(c.Parameters) {
			t.Errorf("not a coverage: %+v", c)
		}
		systems := map[string]string{}
		for _, r := range c.Domain.Referencing {
			for _, axis := range r.Coordinates {
				systems[axis] = r.System.Type
			}
		}
		if systems["x"] != "GeographicCRS" || systems["y"] != "GeographicCRS" || systems["t"] != "TemporalRS" || (systems["z"] == "VerticalCRS") != (sizes["z"] > 0) {
			t.Errorf("reference systems %v", systems)
		}
		for name, r := range c.Ranges {
			count, p := 1, c.Parameters[name]
			for i, axis := range r.AxisNames {
				if count *= r.Shape[i]; r.Shape[i] != sizes[axis] {
					t.Errorf("%s: axis %s has %d values, the shape is %v", name, axis, sizes[axis], r.Shape)
				}
			}
			if r.Type != "NdArray" || r.DataType != "float" || len(r.Values) != count || len(r.AxisNames) != len(r.Shape) || p.Type != "Parameter" || p.Unit.Symbol.Value == "" || p.ObservedProperty.Label["en"] == "" {
				t.Errorf("%s: %d values, range %v %v, parameter %+v", name, len(r.Values), r.AxisNames, r.Shape, p)
			}
		}
	}
}

// at returns a value of a parameter; NaN for null.
func (c coverage) at(name string, lead, level, row, column int) float32 {
	for _, c := range c.all() {
		r, ok := c.Ranges[name]
		if !ok {
			continue
		}
		place := 0
		for i, axis := range r.AxisNames {
			place = place*r.Shape[i] + map[string]int{"t": lead, "z": level, "y": row, "x": column}[axis]
		}
		if v := r.Values[place]; v != nil {
			return *v
		}
	}
	return float32(math.NaN())
}

// edrURL is the path of a query.
func edrURL(path string, parameters ...string) string {
	v := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		v.Set(parameters[i], parameters[i+1])
	}
	return "/edr/collections/" + path + "?" + v.Encode()
}

// values asks for CoverageJSON.
func values(t *testing.T, at, path string) coverage {
	t.Helper()
	resp, body := ask(t, "GET", at+path)
	var c coverage
	if err := json.Unmarshal([]byte(body), &c); err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/prs.coverage+json" {
		t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
	}
	c.check(t)
	return c
}

// collectionOf is the collection of a kind of product.
var collectionOf = map[product.Kind]string{product.Mean: "mean", product.Spread: "spread", product.EnsembleSpread: "ensemble_spread", product.Quantile: "quantiles", product.Probability: "probabilities", product.Member: "members"}

// sameValue reports whether two values are equal, or both missing.
func sameValue(a, b float32) bool { return a == b || a != a && b != b }

// TestPosition: a query for a place returns the values of the nearest grid point, of every field, as the files have them.
func TestPosition(t *testing.T) {
	root, global, pacific := forecastSite(t)
	at, _, _ := answering(t, root, nil)
	for _, c := range []struct {
		of          *product.Product
		lon, lat    float64
		row, column int
		x, y        float64
	}{
		{global, 0, 90, 0, 0, 0, 90}, // a missing value
		{global, 8.55, 47.37, 3, 1, 10, 45},
		{global, -4.9, 47.37, 3, 0, 0, 45},
		{global, -5.1, 47.37, 3, 35, -10, 45},
		{global, 355.1, -80, 11, 0, 360, -75},
		{global, -180, -90, 12, 18, -180, -90},
		{global, 180, 0, 6, 18, 180, 0},
		{pacific, 179.2, 50.9, 5, 5, 180, 50},
		{pacific, -179.2, 50.9, 5, 5, -180, 50},
		{pacific, -171, 60.9, 0, 9, -172, 60},
		{pacific, 189.5, 60.9, 0, 10, 190, 60},
	} {
		for _, f := range c.of.Fields {
			d, _ := f.Describe()
			path := edrURL(collectionOf[f.Kind]+"/instances/"+product.InitName(c.of.Init)+"/position", "coords", fmt.Sprintf("POINT(%g %g)", c.lon, c.lat), "parameter-name", d.Name,
				"datetime", c.of.Init.Valid(f.Lead).Format(time.RFC3339), "z", map[bool]string{true: fmt.Sprint(f.Level.Value / 100)}[f.Level.Kind == ensemble.Pressure])
			got := values(t, at, strings.TrimSuffix(path, "&z="))
			axes := got.all()[0].Domain.Axes
			if v, want := got.at(d.Name, 0, 0, 0, 0), f.Values[c.row*c.of.Grid.NX+c.column]; !sameValue(v, want) || axes.X.Values[0] != c.x || axes.Y.Values[0] != c.y {
				t.Errorf("%s: %v at %v %v, want %v at %v %v", path, v, axes.X.Values, axes.Y.Values, want, c.x, c.y)
			}
		}
	}

	// Without parameters: the newest initialisation, all parameters of the collection at all times and levels.
	resp, _ := ask(t, "GET", at+edrURL("mean/position", "coords", "POINT(10 45)"))
	if want := "/edr/collections/mean/instances/2026010100/position?coords=POINT%2810+45%29"; resp.Header.Get("Content-Location") != want || resp.Header.Get("Cache-Control") != "max-age=30" || resp.Header.Get("ETag") == "" {
		t.Errorf("headers of the newest: %v", resp.Header)
	}
	all := values(t, at, edrURL("mean/position", "coords", "POINT(10 45)"))
	if all.Type != "CoverageCollection" || len(all.Coverages) != 3 || all.Coverages[0].Ensemble["interpolation"] == "" || all.Coverages[0].Ensemble["instance"] != "2026010100" {
		t.Fatalf("%+v", all)
	}
	for _, f := range global.Fields {
		if d, _ := f.Describe(); f.Kind == product.Mean {
			lead, level := int(f.Lead.Hours())/24-1, 0
			if f.Level == ensemble.PressureLevel(500) {
				level = 1
			}
			if got := all.at(d.Name, lead, level, 0, 0); got != f.Values[3*36+1] {
				t.Errorf("%s at %s, %s: %v, want %v", d.Name, f.Level, f.Lead, got, f.Values[3*36+1])
			}
		}
	}
	for _, c := range all.Coverages {
		for name, p := range c.Parameters {
			if name == "t_mean" && (p.ObservedProperty.ID != "http://vocab.nerc.ac.uk/standard_name/air_temperature/" || p.Unit.Symbol.Value != "K" || !slices.Equal(c.Domain.Axes.Z.Values, []float64{850, 500})) || name == "tp_mean" && p.Unit.Symbol.Value != "kg.m-2" {
				t.Errorf("%s: %+v, levels %v", name, p, c.Domain.Axes.Z.Values)
			}
		}
		if want := []string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}; !slices.Equal(c.Domain.Axes.T.Values, want) {
			t.Errorf("times %v, want %v", c.Domain.Axes.T.Values, want)
		}
	}
}

// TestQueriesOfOtherFormats: products without NetCDF are read from their Zarr stores, or from their GRIB files, whose values have 16 bits.
func TestQueriesOfOtherFormats(t *testing.T) {
	for _, c := range []struct {
		format    product.Format
		tolerance float64
	}{{product.Zarr, 0}, {product.GRIB2, 2e-3}} {
		root, global, _ := forecastSite(t, c.format)
		at, _, _ := answering(t, root, nil)
		asked := 0
		for _, f := range global.Fields {
			// GRIB2 has quantiles of some shares and probabilities with a precision of the packing.
			if f.Kind != product.Mean && f.Kind != product.Spread && f.Kind != product.Member {
				continue
			}
			d, _ := f.Describe()
			path := edrURL(collectionOf[f.Kind]+"/position", "coords", "POINT(10 45)", "parameter-name", d.Name, "datetime", global.Init.Valid(f.Lead).Format(time.RFC3339),
				"z", map[bool]string{true: fmt.Sprint(f.Level.Value / 100)}[f.Level.Kind == ensemble.Pressure])
			got, want := values(t, at, strings.TrimSuffix(path, "&z=")).at(d.Name, 0, 0, 0, 0), f.Values[3*36+1]
			if math.Abs(float64(got-want)) > c.tolerance {
				t.Errorf("%s: %s: %v, want %v", c.format, path, got, want)
			}
			asked++
		}
		if asked < 12 {
			t.Errorf("%s: %d fields", c.format, asked)
		}
	}
}

// TestAreaAndCube: queries for areas return the grid points within, from any side of the date line, also as NetCDF.
func TestAreaAndCube(t *testing.T) {
	root, global, pacific := forecastSite(t)
	at, _, _ := answering(t, root, nil)
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	cases := []struct {
		name    string
		of      *product.Product
		query   []string // kind, parameter, value
		rows    []int
		columns []int
		lon     []float64
		outside func(row, column int) bool // positions in rows and columns
	}{
		{"a box", global, []string{"cube", "bbox", "5,30,31,60"}, []int{2, 3, 4}, []int{1, 2, 3}, []float64{10, 20, 30}, nil},
		{"a box across Greenwich", global, []string{"cube", "bbox", "-11,-20,11,20"}, []int{5, 6, 7}, []int{35, 0, 1}, []float64{-10, 0, 10}, nil},
		{"a box across the date line", global, []string{"cube", "bbox", "165,-20,-165,20"}, []int{5, 6, 7}, []int{17, 18, 19}, []float64{170, 180, 190}, nil},
		{"the globe", global, []string{"cube", "bbox", "-180,-90,180,90"}, seq(0, 13), append(seq(18, 36), seq(0, 18)...), steps(-180, 10, 36), nil},
		{"the Pacific", pacific, []string{"cube", "bbox", "178,54,-178,58"}, []int{1, 2, 3}, []int{4, 5, 6}, []float64{178, 180, 182}, nil},
		{"the Pacific from the east", pacific, []string{"cube", "bbox", "-180,54,-176,58"}, []int{1, 2, 3}, []int{5, 6, 7}, []float64{-180, -178, -176}, nil},
		{"a triangle", global, []string{"area", "coords", "POLYGON((0 0,40 0,0 60,0 0))"}, []int{2, 3, 4, 5, 6}, []int{0, 1, 2, 3, 4}, []float64{0, 10, 20, 30, 40}, func(j, i int) bool {
			return float64(10*i) > 40*(1-float64(60-15*j)/60)+1e-9
		}},
		{"a hole", global, []string{"area", "coords", "POLYGON((0 0,40 0,40 60,0 60,0 0),(15 20,25 20,25 40,15 40,15 20))"}, []int{2, 3, 4, 5, 6}, []int{0, 1, 2, 3, 4}, []float64{0, 10, 20, 30, 40},
			func(j, i int) bool { return j == 2 && i == 2 }},
		{"two parts across the date line", global, []string{"area", "coords", "MULTIPOLYGON(((165 0,180 0,180 20,165 20,165 0)),((-180 0,-165 0,-165 20,-180 20,-180 0)))"}, []int{5, 6}, append(seq(18, 36), seq(0, 18)...), steps(-180, 10, 36),
			func(_, i int) bool { lon := -180 + 10*i; return lon > -165 && lon < 165 }},
	}
	for _, c := range cases {
		for _, f := range c.of.Fields {
			if f.Lead != ensemble.Lead(48*time.Hour) || f.Level == ensemble.PressureLevel(500) {
				continue
			}
			d, _ := f.Describe()
			query := append(c.query[1:3:3], "parameter-name", d.Name, "datetime", c.of.Init.Valid(f.Lead).Format(time.RFC3339))
			if f.Level.Kind == ensemble.Pressure {
				query = append(query, "z", "850")
			}
			path := collectionOf[f.Kind] + "/instances/" + product.InitName(c.of.Init) + "/" + c.query[0]
			got := values(t, at, edrURL(path, query...))
			axes := got.all()[0].Domain.Axes
			var lat []float64
			for _, r := range c.rows {
				lat = append(lat, c.of.Grid.Lat[r])
			}
			if !slices.Equal(axes.X.Values, c.lon) || !slices.Equal(axes.Y.Values, lat) {
				t.Fatalf("%s: %v %v, want %v %v", c.name, axes.X.Values, axes.Y.Values, c.lon, lat)
			}
			file := netCDF(t, pool, at, edrURL(path, append(query, "f", "NetCDF")...))
			for j, row := range c.rows {
				for i, column := range c.columns {
					want := f.Values[row*c.of.Grid.NX+column]
					if c.outside != nil && c.outside(j, i) {
						want = float32(math.NaN())
					}
					if v := got.at(d.Name, 0, 0, j, i); !sameValue(v, want) {
						t.Errorf("%s, %s at %g %g: %v, want %v", c.name, d.Name, c.lon[i], lat[j], v, want)
					}
					if v, ok := file[[3]float64{48, lat[j], math.Mod(c.lon[i]+360, 360)}]; !ok || !sameValue(v, want) {
						t.Errorf("%s, %s at %g %g in NetCDF: %v, want %v", c.name, d.Name, c.lon[i], lat[j], v, want)
					}
				}
			}
		}
	}
	both := netCDF(t, pool, at, edrURL("mean/cube", "bbox", "5,30,31,60", "parameter-name", "t2m_mean", "f", "netcdf"))
	for _, f := range global.Fields {
		if f.Variable == "2t" && f.Kind == product.Mean {
			if v, want := both[[3]float64{f.Lead.Hours(), 45, 20}], f.Values[3*36+2]; v != want {
				t.Errorf("two leads in a file: %v at %s, want %v", v, f.Lead, want)
			}
		}
	}
}

func seq(from, to int) (out []int) {
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func steps(from, by float64, n int) (out []float64) {
	for i := range n {
		out = append(out, from+by*float64(i))
	}
	return out
}

// netCDF asks for a NetCDF file with one parameter, and returns its values by lead in hours, latitude and longitude, as
// the readers of the program read it.
func netCDF(t *testing.T, pool *decode.Pool, at, path string) map[[3]float64]float32 {
	t.Helper()
	resp, body := ask(t, "GET", at+path)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-netcdf" {
		t.Fatalf("%s: %s %s", path, resp.Status, body)
	}
	name := filepath.Join(t.TempDir(), "answer.nc")
	if err := os.WriteFile(name, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
	in, err := fio.Open(t.Context(), []string{name}, fio.Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[[3]float64]float32{}
	err = in.Read(t.Context(), in.Catalogue().Entries, func(_ int, f *ensemble.Field) error {
		for k, v := range f.Values {
			row, column := k/f.Grid.NX, k%f.Grid.NX
			out[[3]float64{f.Key.Lead.Hours(), f.Grid.LatAt(row, column), math.Mod(math.Round(f.Grid.LonAt(row, column)*1e6)/1e6, 360)}] = v
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestQueryFaults: a query that cannot be answered is one JSON error that states what is available.
func TestQueryFaults(t *testing.T) {
	root, _, _ := forecastSite(t)
	at, _, log := answering(t, root, func(o *Options) { o.Service.Queries = config.Queries{MaxValues: 300} })
	for _, c := range []struct {
		path   string
		status int
		words  []string
	}{
		{"/edr/collection", 404, []string{"/edr/collections"}},
		{"/edr/collections/median", 404, []string{`"median"`, "mean, spread, ensemble_spread, quantiles, probabilities, members"}},
		{"/edr/collections/raw_mean", 404, []string{"2026010100", "mean, spread"}},
		{"/edr/collections/mean/radius?coords=POINT(0 0)", 404, []string{"position, area, cube"}},
		{"/edr/collections/mean/instances/2026010200/position?coords=POINT(0 0)", 404, []string{"2026010200", "/edr/collections/mean/instances"}},
		{"/edr/collections/mean/instances/../position?coords=POINT(0 0)", 400, nil},
		{edrURL("mean/position"), 400, []string{"coords=POINT(8.55 47.37)"}},
		{edrURL("mean/position", "coords", "POINT(8.55, 47.37)"), 400, []string{"character 11", "number"}},
		{edrURL("mean/position", "coords", "POINT(47.37)"), 400, []string{"number"}},
		{edrURL("mean/position", "coords", "POINT(8.55 147.37)"), 400, []string{"latitude (-90 to 90)"}},
		{edrURL("mean/position", "coords", "POINT(NaN 0)"), 400, []string{"number"}},
		{edrURL("mean/position", "coords", "POINT(8 47) x"), 400, []string{"end here"}},
		{edrURL("mean/position", "coords", "8,47"), 400, []string{"POINT(8.55 47.37), longitude first"}},
		{edrURL("mean/position", "coords", "POLYGON((0 0,1 0,1 1,0 0))"), 400, []string{"POINT(8.55 47.37)"}},
		{edrURL("mean/instances/2025123112/position", "coords", "POINT(8 47)"), 400, []string{"outside of the grid", "50 to 60 N", "170 to -170 E"}},
		{edrURL("mean/instances/2025123112/cube", "bbox", "5,45,10,50"), 400, []string{"no grid point", "every 2 degrees"}},
		{edrURL("mean/area", "coords", "POLYGON((1 1,2 1,2 2,1 1))"), 400, []string{"no grid point", "every 15 degrees in latitude and 10 in longitude", "position"}},
		{edrURL("mean/area", "coords", "POLYGON((1 1,2 1,2 2))"), 400, []string{"four points"}},
		{edrURL("mean/area", "coords", "POLYGON((1 1,2 1,2 2,1 2))"), 400, []string{"ends at its first point"}},
		{edrURL("mean/area", "coords", "POLYGON(1 1,2 1,2 2,1 1)"), 400, []string{"( is missing"}},
		{edrURL("mean/area", "coords", "POLYGON((1 1,2 1,2 2,1 1)"), 400, []string{") is missing"}},
		{edrURL("mean/area", "coords", "POLYGON((1 1,2 1;2 2,1 1))"), 400, nil},
		{edrURL("mean/area", "coords", "POLYGON((-180 0,360 0,360 1,-180 0))"), 400, []string{"wider than 360"}},
		{edrURL("mean/cube", "bbox", "5,45,10"), 400, []string{"west, south, east, north"}},
		{edrURL("mean/cube", "bbox", "5,50,10,45"), 400, []string{"south is north"}},
		{edrURL("mean/cube", "bbox", "5,45,850,10,50,500", "z", "850"), 400, []string{"both in bbox and in z"}},
		{edrURL("mean/cube", "bbox", "-180,-90,180,90"), 413, []string{"more than 300", "serve.queries.max_values"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "parameter-name", "t2m"), 400, []string{`"t2m"`, "t2m_mean"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "datetime", "2026-01-03T06:00:00Z"), 400, []string{"2026-01-02T00:00:00Z, 2026-01-03T00:00:00Z"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "datetime", "tomorrow"), 400, []string{`"tomorrow"`, "2026-01-03T00:00:00Z"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "z", "700"), 400, []string{"levels are 2, 850, 500"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "z", "low"), 400, []string{"850,500"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "crs", "EPSG:3857"), 400, []string{"CRS84"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "f", "NetCDF"), 400, []string{"position has CoverageJSON"}},
		{edrURL("mean/cube", "bbox", "5,45,10,50", "f", "GRIB"), 400, []string{"CoverageJSON, NetCDF"}},
		{edrURL("mean/cube", "bbox", "5,45,10,50", "f", "NetCDF", "parameter-name", "tp_mean"), 400, []string{"24h0m0s", "48h0m0s", "one datetime"}},
		{edrURL("mean/position", "coords", "POINT(8 47)", "parameter_name", "t_mean"), 400, []string{`"parameter_name"`, "parameter-name"}},
		{edrURL("mean/position", "coords", "POINT(8 47)") + "&z=850&z=500", 400, []string{"z is given twice"}},
		{"/edr/collections/mean/position?coords=%zz", 400, []string{"malformed"}},
	} {
		resp, body := ask(t, "GET", at+strings.ReplaceAll(c.path, " ", "%20"))
		var fault map[string]string
		if resp.StatusCode != c.status || c.words != nil && (json.Unmarshal([]byte(body), &fault) != nil || fault["code"] == "" || len(fault) != 2) {
			t.Errorf("%s: %s %s, want %d", c.path, resp.Status, body, c.status)
		}
		for _, w := range c.words {
			if !strings.Contains(fault["description"], w) {
				t.Errorf("%s: no %q in %q", c.path, w, fault["description"])
			}
		}
	}
	if strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Errorf("faults of clients are logged as errors: %s", log)
	}

	// A file that the manifest lists and that was cut is no source of values, nor one that a link replaces.
	file := filepath.Join(root, "2026010100", "2026010100_024h.nc")
	if err := os.Truncate(file, 100); err != nil {
		t.Fatal(err)
	}
	if resp, body := ask(t, "GET", at+edrURL("mean/position", "coords", "POINT(8 47)")); resp.StatusCode != 500 || strings.Contains(body, root) {
		t.Errorf("a cut file: %s %s", resp.Status, body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("2026010100_048h.nc", file); err != nil {
		t.Fatal(err)
	}
	if resp, body := ask(t, "GET", at+edrURL("mean/position", "coords", "POINT(8 47)")); resp.StatusCode != 500 {
		t.Errorf("a link: %s %s", resp.Status, body)
	}
}

// TestQueriesWhileReplaced: while products are replaced, queries return values of one version, or state that they cannot.
func TestQueriesWhileReplaced(t *testing.T) {
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{Children: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	root := filepath.Join(t.TempDir(), "products")
	replace := func(version int) {
		p := forecastOf(globalInit, globalGrid())
		for i := range p.Fields {
			for k := range p.Fields[i].Values {
				p.Fields[i].Values[k] = float32(version) / 1000
			}
		}
		if _, _, err := product.Publish(t.Context(), pool, root, p, product.Publication{Overwrite: product.OverwriteAlways}); err != nil {
			t.Error(err)
		}
	}
	replace(0)
	at, _, _ := answering(t, root, func(o *Options) { o.Service.Queries.Concurrent = 2 })
	var enough, stop atomic.Bool // enough: a reader has seen three versions
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			versions := map[float32]bool{}
			for !stop.Load() {
				resp, body := ask(t, "GET", at+edrURL("members/position", "coords", "POINT(8 47)"))
				var c coverage
				if resp.StatusCode == 503 && resp.Header.Get("Retry-After") != "" || resp.StatusCode == 404 {
					continue // between the old manifest and the new one
				}
				if err := json.Unmarshal([]byte(body), &c); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s %v: %s", resp.Status, err, body)
					return
				}
				first := c.at("t2m_member_0", 0, 0, 0, 0)
				for _, name := range []string{"t2m_member_0", "t2m_member_1", "t2m_member_2"} {
					for lead := range 2 {
						if v := c.at(name, lead, 0, 0, 0); v != first {
							t.Errorf("values of two versions, %v and %v", first, v)
						}
					}
				}
				versions[first] = true
				if len(versions) == 3 {
					enough.Store(true)
				}
			}
		})
	}
	for version := 1; version <= 20 || !enough.Load() && version < 1000; version++ {
		replace(version)
	}
	stop.Store(true)
	readers.Wait()
	if !enough.Load() {
		t.Error("no reader saw three versions: the test has no effect")
	}
}

// TestQueryBounds: a query that takes too long, with its wait for others, is refused and may be sent again.
func TestQueryBounds(t *testing.T) {
	root, _, _ := forecastSite(t)
	at, _, _ := answering(t, root, func(o *Options) { o.Service.Queries.Timeout = time.Nanosecond })
	resp, body := ask(t, "GET", at+edrURL("mean/position", "coords", "POINT(8 47)"))
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, "took longer than 1ns") {
		t.Errorf("%s %v %s", resp.Status, resp.Header, body)
	}
	if resp, body := ask(t, "GET", at+"/edr/collections"); resp.StatusCode != 503 {
		t.Errorf("the collections: %s %s", resp.Status, body)
	}
	if resp, body := ask(t, "GET", at+"/edr"); resp.StatusCode != 200 {
		t.Errorf("the landing page: %s %s", resp.Status, body)
	}
}

// TestEDRDocuments: landing page, conformance, collections and instances have the members that the standard requires,
// and every link leads somewhere.
func TestEDRDocuments(t *testing.T) {
	root, _, _ := forecastSite(t)
	at, _, _ := answering(t, root, nil)
	type described struct {
		ID     string
		Links  []struct{ Href, Rel string }
		Extent struct {
			Spatial  struct{ BBox [][]float64 }
			Temporal struct{ Interval [][]string }
			Vertical struct{ Interval [][]string }
		}
		DataQueries map[string]struct {
			Link struct {
				Href      string
				Variables struct {
					Formats []string `json:"output_formats"`
				}
			}
		} `json:"data_queries"`
		CRS        []string
		Formats    []string `json:"output_formats"`
		Parameters map[string]struct {
			Type             string
			Unit             struct{ Label string }
			ObservedProperty struct{ Label string }
		} `json:"parameter_names"`
	}
	var document struct {
		described
		ConformsTo  []string
		Collections []described
		Instances   []described
	}
	read := func(path string) {
		t.Helper()
		document.described, document.Links, document.Collections, document.Instances = described{}, nil, nil, nil
		resp, body := ask(t, "GET", at+path)
		if err := json.Unmarshal([]byte(body), &document); err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %s %v %s", path, resp.Status, err, body)
		}
		for _, d := range append(append([]described{document.described}, document.Collections...), document.Instances...) {
			for _, l := range d.Links {
				if resp, _ := ask(t, "GET", at+l.Href); resp.StatusCode != 200 {
					t.Errorf("%s links to %s: %s", path, l.Href, resp.Status)
				}
			}
			if d.ID == "" {
				continue
			}
			if len(d.Extent.Spatial.BBox) != 1 || len(d.Extent.Temporal.Interval) != 1 || len(d.CRS) == 0 || len(d.Formats) != 2 || len(d.Parameters) == 0 || len(d.DataQueries["position"].Link.Variables.Formats) != 1 || len(d.DataQueries["area"].Link.Variables.Formats) != 2 || d.DataQueries["cube"].Link.Href == "" {
				t.Errorf("%s: %+v", path, d)
			}
			for name, p := range d.Parameters {
				if p.Type != "Parameter" || p.ObservedProperty.Label == "" || p.Unit.Label == "" {
					t.Errorf("%s: %s: %+v", path, name, p)
				}
			}
		}
	}
	read("/edr")
	if len(document.Links) < 4 {
		t.Errorf("links %v", document.Links)
	}
	if read("/edr/conformance"); !slices.Contains(document.ConformsTo, "http://www.opengis.net/spec/ogcapi-edr-1/1.1/conf/core") {
		t.Errorf("conforms to %v", document.ConformsTo)
	}
	if read("/edr/collections"); len(document.Collections) != 6 {
		t.Errorf("%d collections", len(document.Collections))
	}
	read("/edr/collections/mean")
	if e := document.Extent; !slices.Equal(e.Spatial.BBox[0], []float64{-180, -90, 180, 90}) || !slices.Equal(e.Temporal.Interval[0], []string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}) || !slices.Equal(e.Vertical.Interval[0], []string{"500", "850"}) {
		t.Errorf("the extent: %+v", e)
	}
	if read("/edr/collections/quantiles/instances"); len(document.Instances) != 2 || document.Instances[0].ID != "2026010100" || !slices.Equal(document.Instances[1].Extent.Spatial.BBox[0], []float64{170, 50, -170, 60}) || document.Instances[1].Extent.Temporal.Interval[0][0] != "2026-01-01T12:00:00Z" {
		t.Errorf("instances: %+v", document.Instances)
	}
	read("/edr/collections/quantiles/instances/2025123112")
	if len(document.Parameters) != 2 {
		t.Errorf("parameters %v", document.Parameters)
	}
}
