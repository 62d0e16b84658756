package product_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// orders lists storage orders of a global input.
var orders = []struct {
	name               string
	src                ensemble.SourceOrder
	firstLat, firstLon float64 // of the output that keeps the order
	lastLon            float64
}{
	{"north first from 0", ensemble.SourceOrder{ScanningMode: 0}, 90, 0, 350},
	{"south first from 180 W", ensemble.SourceOrder{SouthFirst: true, Roll: 18, FirstLon: -180, ScanningMode: 0x40}, -90, -180, 170},
	{"from 180 E", ensemble.SourceOrder{Roll: 18, FirstLon: 180, ScanningMode: 0}, 90, -180, 170},
	{"east first", ensemble.SourceOrder{EastFirst: true, ScanningMode: 0x80}, 90, 0, 350},
	{"by meridians, south first", ensemble.SourceOrder{SouthFirst: true, ColumnMajor: true, ScanningMode: 0x60}, -90, 0, 350},
	{"every second row backwards", ensemble.SourceOrder{ScanningMode: 0x10}, 90, 0, 350},
}

// near compares to single precision.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// wantMarks are the values of a field of testProduct at the marks.
func wantMarks(base float64) (ne, sw float64) {
	return base + float64(atNE)/468 + markNE, base + float64(atSW)/468 + markSW
}

func writeNetCDF(t *testing.T, p *product.Product, o product.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.nc")
	if err := product.WriteNetCDF(context.Background(), encoder(t), path, p, o); err != nil {
		t.Fatal(err)
	}
	return path
}

// xarray opens the file without a warning and finds the specified content.
func TestNetCDFInXarray(t *testing.T) {
	needPython(t)
	for _, order := range orders {
		t.Run(order.name, func(t *testing.T) {
			v := xarrayView(t, writeNetCDF(t, testProduct(globe(order.src)), product.Options{}))
			lat, lon := v.Coords["latitude"], v.Coords["longitude"]
			if lat[0] != order.firstLat || lon[0] != order.firstLon || lon[len(lon)-1] != order.lastLon {
				t.Errorf("first latitude %g, longitudes %g to %g; want %g, %g to %g", lat[0], lon[0], lon[len(lon)-1], order.firstLat, order.firstLon, order.lastLon)
			}
			checkProduct(t, v)
		})
	}
}

// checkProduct compares the content in xarray with testProduct.
func checkProduct(t *testing.T, v view) {
	t.Helper()
	valid := float64(testInit.Valid(testLead).Unix())
	if got := v.Coords["time"]; !reflect.DeepEqual(got, []float64{valid}) {
		t.Errorf("time %v, want %g", got, valid)
	}
	if got := v.Scalars["forecast_reference_time"]; got != float64(testInit.Unix()) {
		t.Errorf("forecast_reference_time %g, want %d", got, testInit.Unix())
	}
	if got := v.Scalars["forecast_period"]; got != 48*3600 {
		t.Errorf("forecast_period %g s, want 48 h", got)
	}
	if got := v.Scalars["height_2m"]; got != 2 {
		t.Errorf("height %g", got)
	}
	if got := v.Coords["pressure"]; !reflect.DeepEqual(got, []float64{850, 500}) {
		t.Errorf("pressure %v, want 850, 500 hPa", got)
	}
	for name, want := range map[string]struct {
		base        []float64
		std, method string
		unit        string
		dims        string
	}{
		"t_mean":     {[]float64{250, 240}, "air_temperature", "realization: mean", "K", "time pressure latitude longitude"},
		"t_spread":   {[]float64{2.5, 2.4}, "air_temperature", "realization: standard_deviation", "K", "time pressure latitude longitude"},
		"gh_mean":    {[]float64{1400}, "geopotential_height", "realization: mean", "m", "time pressure_2 latitude longitude"},
		"gh_spread":  {[]float64{14}, "geopotential_height", "realization: standard_deviation", "m", "time pressure_2 latitude longitude"},
		"t2m_mean":   {[]float64{280}, "air_temperature", "realization: mean", "K", "time latitude longitude"},
		"t2m_spread": {[]float64{2.8}, "air_temperature", "realization: standard_deviation", "K", "time latitude longitude"},
	} {
		got := v.Vars[name]
		if strings.Join(got.Dims, " ") != want.dims {
			t.Errorf("%s over %v, want %s", name, got.Dims, want.dims)
			continue
		}
		for k, b := range want.base {
			ne, sw := wantMarks(b)
			if !near(got.NE[k], ne) || !near(got.SW[k], sw) {
				t.Errorf("%s: %v at 90 E 45 N, %v at 10 W 30 S; want %g and %g at position %d", name, got.NE, got.SW, ne, sw, k)
			}
		}
		if got.Nulls != len(want.base) {
			t.Errorf("%s has %d missing, want one a level", name, got.Nulls)
		}
		a := got.Attrs
		if a["standard_name"] != want.std || a["cell_methods"] != want.method || a["units"] != want.unit || a["ensemble_members_used"] != 5.0 {
			t.Errorf("%s attributes %v", name, a)
		}
		if strings.HasSuffix(name, "_spread") != (a["spread_ddof"] == 1.0) {
			t.Errorf("%s: spread_ddof %v", name, a["spread_ddof"])
		}
	}
	if len(v.Vars) != 7 || v.Vars["crs"].Attrs["grid_mapping_name"] != "latitude_longitude" || v.Vars["crs"].Attrs["earth_radius"] != 6371229.0 {
		t.Errorf("%d variables, crs %v", len(v.Vars), v.Vars["crs"].Attrs)
	}
	for name, want := range map[string]any{"Conventions": "CF-1.8", "ensemble_members_used": 5.0, "ensemble_members": "0 1 2 3 4",
		"control_policy": "include", "license": "CC BY 4.0", "model_checksum": "sha256:00ff", "input_checksums": "sha256:ab12 in.grib2",
		"history": "2026-01-01T00:00:00Z ensemble 0.1.0: ensemble predict --init 2026010100"} {
		if v.Attrs[name] != want {
			t.Errorf("global %s = %v, want %v", name, v.Attrs[name], want)
		}
	}
}

// The ranges of longitudes.
func TestNetCDFLongitudes(t *testing.T) {
	needPython(t)
	for _, order := range orders {
		for want, first := range map[product.Longitudes]float64{product.From0: 0, product.From180: -180} {
			v := xarrayView(t, writeNetCDF(t, testProduct(globe(order.src)), product.Options{Longitude: want}))
			if lon := v.Coords["longitude"]; lon[0] != first || lon[35] != first+350 {
				t.Errorf("%s: longitudes %g to %g for %s", order.name, lon[0], lon[35], want)
			}
			checkProduct(t, v)
		}
	}
}

// cdoMarks prints one field with coordinates and time in CDO, without a warning,
// and compares it with marked(base).
func cdoMarks(t *testing.T, what, path, variable, level string, base, tolerance float64) {
	t.Helper()
	out := run(t, tool(t, "cdo"), "-s", "outputtab,nohead,date,time,lon,lat,value", "-sellevel,"+level, "-selname,"+variable, path)
	ne, sw := wantMarks(base)
	found := 0
	for line := range strings.Lines(out) {
		var date, time string
		var lon, lat, v float64
		if _, err := fmt.Sscan(line, &date, &time, &lon, &lat, &v); err != nil {
			t.Fatalf("%s: %q: %v", what, line, err)
		}
		if date != "2026-01-03" || time != "00:00:00" {
			t.Fatalf("%s: valid at %s %s", what, date, time)
		}
		for _, m := range [][3]float64{{neLat, neLon, ne}, {swLat, swLon, sw}} {
			if math.Abs(lat-m[0]) < 1e-3 && math.Abs(math.Remainder(lon-m[1], 360)) < 1e-3 {
				found++
				if math.Abs(v-m[2]) > tolerance {
					t.Errorf("%s: %s is %g at %g N %g E, want %g", what, variable, v, lat, lon, m[2])
				}
			}
		}
	}
	if found != 2 {
		t.Errorf("%s: %d of 2 marks found", what, found)
	}
}

// CDO opens both profiles without a warning and finds the marks; so do ncks and GDAL.
// CDO also interpolates, which shows that it recognises the grid as regular.
func TestNetCDFInCDO(t *testing.T) {
	cdo := tool(t, "cdo")
	for i, order := range orders {
		path := writeNetCDF(t, testProduct(globe(order.src)), product.Options{Profile: []product.Profile{product.XarrayProfile, product.CDOProfile}[i%2]})
		cdoMarks(t, order.name, path, "t_spread", "500", 2.4, 1e-3)
		_, sw := wantMarks(2.8)
		out := run(t, cdo, "-s", "output", "-remapnn,lon=-10/lat=-30", "-selname,t2m_spread", path)
		if got, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || math.Abs(got-sw) > 1e-3 {
			t.Errorf("%s: t2m_spread at 10 W 30 S is %q, want %g", order.name, out, sw)
		}
	}
}

func TestNetCDFInNCO(t *testing.T) {
	ncks := tool(t, "ncks")
	for _, o := range []product.Options{{}, {Profile: product.CDOProfile}} {
		path := writeNetCDF(t, testProduct(globe(orders[1].src)), o)
		run(t, ncks, "-m", path)
		ne, _ := wantMarks(280)
		out := run(t, ncks, "--trd", "-C", "-H", "-s", "%f", "-v", "t2m_mean", "-d", "latitude,45.0", "-d", "longitude,90.0", path)
		if got, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || math.Abs(got-ne) > 1e-3 {
			t.Errorf("t2m_mean at 90 E 45 N is %q, want %g", out, ne)
		}
	}
}

func TestNetCDFInGDAL(t *testing.T) {
	gdalinfo, locate := tool(t, "gdalinfo"), tool(t, "gdallocationinfo")
	for _, order := range orders {
		path := writeNetCDF(t, testProduct(globe(order.src)), product.Options{Longitude: product.From180})
		var info struct {
			CornerCoordinates struct{ UpperLeft, LowerRight [2]float64 }
			CoordinateSystem  struct{ Wkt string }
		}
		set := "NETCDF:" + path + ":t_mean"
		if err := json.Unmarshal([]byte(run(t, gdalinfo, "-json", set)), &info); err != nil {
			t.Fatal(err)
		}
		// Corners of pixels: half a step outside the outermost points.
		if c := info.CornerCoordinates; c.UpperLeft != [2]float64{-185, 97.5} || c.LowerRight != [2]float64{175, -97.5} {
			t.Errorf("%s: corners %v", order.name, c)
		}
		if !strings.Contains(info.CoordinateSystem.Wkt, "6371229") {
			t.Errorf("%s: no earth radius in %q", order.name, info.CoordinateSystem.Wkt)
		}
		ne, sw := wantMarks(250)
		for place, want := range map[[2]string]float64{{"90", "45"}: ne, {"-10", "-30"}: sw} {
			out := run(t, locate, "-valonly", "-b", "1", "-geoloc", set, place[0], place[1])
			if got, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || math.Abs(got-want) > 1e-3 {
				t.Errorf("%s: t_mean at %v is %q, want %g", order.name, place, out, want)
			}
		}
	}
}

// projected returns a small Lambert grid with approximate coordinates that
// distinguish its corners.
func projected(src ensemble.SourceOrder) *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.Projected, NX: 5, NY: 4, Source: src, Mapping: map[string]any{
		"grid_mapping_name": "lambert_azimuthal_equal_area", "latitude_of_projection_origin": 54.9,
		"longitude_of_projection_origin": -2.5, "false_easting": 0.0, "false_northing": 0.0, "earth_radius": 6371229.0}}
	for i := range g.NX {
		g.X = append(g.X, -4000+2000*float64(i))
	}
	for j := range g.NY {
		g.Y = append(g.Y, 3000-2000*float64(j))
		for i := range g.NX {
			g.Lat, g.Lon = append(g.Lat, 54.9+g.Y[j]/111e3), append(g.Lon, 357.5+g.X[i]/64e3)
		}
	}
	return g
}

func TestNetCDFProjected(t *testing.T) {
	needPython(t)
	for _, south := range []bool{false, true} {
		g := projected(ensemble.SourceOrder{SouthFirst: south, ScanningMode: -1, FirstLon: -2.5625})
		p := testProduct(globe(ensemble.SourceOrder{}))
		p.Grid = g
		values := make([]float32, g.Size())
		values[0] = 7 // the north-western corner
		p.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Lead: testLead, Kind: product.Mean, Values: values}}
		path := writeNetCDF(t, p, product.Options{})
		v := xarrayView(t, path)
		mean := v.Vars["t_mean"]
		if got := strings.Join(mean.Dims, " "); got != "time pressure y x" {
			t.Errorf("dimensions %s", got)
		}
		if got := strings.Join(mean.Coords, " "); got != "forecast_period forecast_reference_time latitude longitude pressure time x y" {
			t.Errorf("coordinates %s", got)
		}
		var s stored
		ask(t, "storage", path, &s)
		y, lat, lon := s.Vars["y"], s.Vars["latitude"], s.Vars["longitude"]
		if !near(lon.First, -2.5625) {
			t.Errorf("longitude from %g, want that of the input", lon.First)
		}
		if south && (y.First != -3000 || lat.First != g.Lat[15] || mean.Corner != 0) || !south && (y.First != 3000 || lat.First != g.Lat[0] || mean.Corner != 7) {
			t.Errorf("south first %v: y from %g, latitude from %g, corner %g", south, y.First, lat.First, mean.Corner)
		}
		if a := y.Attrs; a["standard_name"] != "projection_y_coordinate" || a["units"] != "m" {
			t.Errorf("y: %v", a)
		}
		if a := v.Vars["crs"].Attrs; a["grid_mapping_name"] != "lambert_azimuthal_equal_area" || a["latitude_of_projection_origin"] != 54.9 {
			t.Errorf("crs: %v", a)
		}
		for _, profile := range []product.Profile{product.XarrayProfile, product.CDOProfile} {
			grid := run(t, tool(t, "cdo"), "-s", "griddes", writeNetCDF(t, p, product.Options{Profile: profile}))
			if !strings.Contains(grid, "gridtype  = projection") || !strings.Contains(grid, "gridsize  = 20") {
				t.Errorf("CDO sees the grid as\n%s", grid)
			}
		}
	}
}

// Precipitation sums have bounds that end at the valid time, and a time method.
func TestNetCDFAccumulation(t *testing.T) {
	needPython(t)
	p := testProduct(globe(ensemble.SourceOrder{}))
	p = p.Select(func(f product.Field) bool { return f.Variable == "2t" && f.Kind == product.Spread })
	p.Fields = append(p.Fields, product.Field{Variable: "tp", Lead: testLead, Kind: product.Mean, Values: marked(p.Grid.Size(), 1), Period: 6 * time.Hour, Members: 4})
	path := writeNetCDF(t, p, product.Options{})
	var s stored
	ask(t, "storage", path, &s)
	end := float64(testInit.Valid(testLead).Unix())
	if b := s.Vars["time_bnds"]; b.First != end-6*3600 || b.Last != end || s.Vars["time"].Attrs["bounds"] != "time_bnds" {
		t.Errorf("bounds %v of time %v", b, s.Vars["time"])
	}
	v := xarrayView(t, path)
	if a := v.Vars["tp_mean"].Attrs; a["cell_methods"] != "time: sum realization: mean" || a["units"] != "kg m-2" || a["ensemble_members_used"] != 4.0 {
		t.Errorf("tp_mean: %v", a)
	}
	if a := v.Vars["t2m_spread"].Attrs; a["cell_methods"] != "time: point realization: standard_deviation" {
		t.Errorf("t2m_spread: %v", a)
	}
}

// Storage: chunks, compression, fill values.
func TestNetCDFStorage(t *testing.T) {
	needPython(t)
	var s stored
	ask(t, "storage", writeNetCDF(t, testProduct(globe(ensemble.SourceOrder{})), product.Options{}), &s)
	if s.Format != "NETCDF4_CLASSIC" {
		t.Errorf("format %s", s.Format)
	}
	for name, v := range s.Vars {
		data := strings.HasSuffix(name, "_mean") || strings.HasSuffix(name, "_spread")
		if v.Fill != data {
			t.Errorf("%s: _FillValue %v", name, v.Fill)
		}
		if !data {
			continue
		}
		want := []int{1, 13, 36}
		if len(v.Dims) == 4 {
			want = []int{1, 1, 13, 36}
		}
		if v.Type != "float32" || v.Level != 4 || !v.Shuffle || !reflect.DeepEqual(v.Chunks, want) {
			t.Errorf("%s is stored as %+v", name, v)
		}
	}
	if p := s.Vars["forecast_period"]; p.Type != "int32" || p.Attrs["units"] != "hours" || p.Attrs["dtype"] != "timedelta64[ns]" {
		t.Errorf("forecast_period: %+v", p)
	}
	if p := s.Vars["pressure"]; p.Attrs["units"] != "hPa" || p.Attrs["positive"] != "down" || p.Attrs["axis"] != "Z" {
		t.Errorf("pressure: %+v", p)
	}
	if c := s.Vars["time"]; c.Type != "float64" || c.Attrs["units"] != "seconds since 1970-01-01 00:00:00" || c.Attrs["calendar"] != "standard" {
		t.Errorf("time: %+v", c)
	}
}

// All members of an initialisation, and analyses, in xarray and CDO.
func TestEnsembleNetCDF(t *testing.T) {
	f := testForecast(gaussian())
	f.Field(2, 3, 1, 1)[0] = float32(math.NaN())
	meta := product.Metadata{Title: "raw ensemble", Command: "ensemble demo", Version: "0.1.0"}
	dir := t.TempDir()
	path := filepath.Join(dir, "ens.nc")
	if err := product.WriteEnsembleNetCDF(context.Background(), encoder(t), path, f, meta, product.Options{}); err != nil {
		t.Fatal(err)
	}
	v := xarrayView(t, path)
	if got := strings.Join(v.Vars["t"].Dims, " "); got != "realization time pressure latitude longitude" {
		t.Errorf("dimensions %s", got)
	}
	init := float64(testInit.Unix())
	for name, want := range map[string][]float64{"realization": {0, 1, 2, 3}, "pressure": {850, 500}, "time": {init, init + 86400, init + 2*86400}} {
		if !reflect.DeepEqual(v.Coords[name], want) {
			t.Errorf("%s %v, want %v", name, v.Coords[name], want)
		}
	}
	if v.Scalars["forecast_reference_time"] != init || !near(v.Coords["latitude"][0], 85.760587) {
		t.Errorf("init %g, first latitude %g", v.Scalars["forecast_reference_time"], v.Coords["latitude"][0])
	}
	// Every field has its own value, so the sum shows that all exist, and the first
	// and last values that they are in place.
	var want float64
	for k := range 3 * 4 * 2 {
		for _, x := range f.Field(k%3, k/3%4, 0, k/12) {
			want += float64(x)
		}
	}
	var s stored
	ask(t, "storage", path, &s)
	if got := v.Vars["t"]; math.Abs(got.Sum-want) > 1e-6*want || got.Nulls != 0 {
		t.Errorf("sum of t %g, want %g; %d missing", got.Sum, want, got.Nulls)
	}
	if got := s.Vars["t"]; got.First != 0 || !near(got.Last, 2000+300+1+2047./2048) || !reflect.DeepEqual(got.Chunks, []int{1, 1, 1, 32, 64}) {
		t.Errorf("t from %g to %g in chunks %v", got.First, got.Last, got.Chunks)
	}
	if got := v.Vars["vo"]; got.Nulls != 1 || got.Attrs["units"] != "s-1" {
		t.Errorf("vo: %d missing, %v", got.Nulls, got.Attrs)
	}
	run(t, tool(t, "ncks"), "-m", path)
}

func TestAnalysesNetCDF(t *testing.T) {
	g := gaussian()
	var as []*ensemble.Analysis
	for k := range 5 {
		a := ensemble.NewAnalysis(ensemble.ValidAt(testInit.AddDate(0, 0, 7*k)), []string{"gh", "t"}, []ensemble.Level{ensemble.PressureLevel(500)}, g)
		for v := range a.Variables {
			for p := range a.Field(v, 0) {
				a.Field(v, 0)[p] = float32(10*k + v)
			}
		}
		as = append(as, a)
	}
	path := filepath.Join(t.TempDir(), "an.nc")
	if err := product.WriteAnalysesNetCDF(context.Background(), encoder(t), path, as, product.Metadata{Title: "analyses"}, product.Options{}); err != nil {
		t.Fatal(err)
	}
	v := xarrayView(t, path)
	if f := v.Vars["t"]; f.Sum != 2048*(1+11+21+31+41) || strings.Join(f.Dims, " ") != "time pressure latitude longitude" {
		t.Errorf("t: sum %g over %v", f.Sum, f.Dims)
	}
	if got := v.Coords["time"]; len(got) != 5 || got[4]-got[0] != 28*86400 {
		t.Errorf("times %v", got)
	}
	if grid := run(t, tool(t, "cdo"), "-s", "griddes", path); !strings.Contains(grid, "gridtype  = gaussian") {
		t.Errorf("CDO sees the grid as\n%s", grid)
	}
	out := run(t, tool(t, "cdo"), "-s", "output", "-fldmean", "-seltimestep,3", "-selname,gh", path)
	if got, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || math.Abs(got-20) > 1e-4 {
		t.Errorf("third gh %q, want 20", out)
	}
	as[4].Levels = nil
	if err := product.WriteAnalysesNetCDF(context.Background(), encoder(t), path, as, product.Metadata{}, product.Options{}); err == nil || !strings.Contains(err.Error(), "other axes") {
		t.Errorf("analyses of unlike axes: %v", err)
	}
}
