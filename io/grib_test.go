package fio

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/order"
)

// expectedField is the result of an independent decoder.
type expectedField struct {
	ShortName    string
	TypeOfLevel  string
	Level        float64
	DataDate     int64
	DataTime     int64
	StepRange    any
	Number       *int
	DataType     string
	GridType     string
	PackingType  string
	Ni, Nj       int
	ScanningMode int
	Values       int
	Missing      int
	Min, Max     *float64
	Mean         *float64
	First5       []*float64 `json:"first5"`
	FirstLast    [4]float64 `json:"first_last_latlon"`
	Units        string     `json:"units"`
	Type         string     `json:"type"`
	Shape        []int      `json:"shape"`
}

type expectedFile struct {
	Covers    string
	Format    string
	Messages  int
	Fields    []json.RawMessage
	AllFields json.RawMessage            `json:"all_fields"`
	Count     int                        `json:"field_count"`
	Variables map[string]json.RawMessage `json:"variables"`
}

func (f expectedFile) field(t *testing.T, i int) expectedField {
	t.Helper()
	var e expectedField
	if f.AllFields != nil {
		if err := json.Unmarshal(f.AllFields, &e); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(f.Fields[i], &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func expected(t *testing.T, set string) (dir string, files map[string]expectedFile) {
	t.Helper()
	dir = testdata.Dir(t, set)
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Files map[string]expectedFile }
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return dir, all.Files
}

var sharedPool *decode.Pool

// children returns the pool that all tests of the package share.
func children(t testing.TB) *decode.Pool {
	t.Helper()
	if sharedPool == nil {
		p, err := decode.NewPool(decode.Options{Program: testdecoder.Path(t), Children: 2})
		if err != nil {
			t.Fatal(err)
		}
		sharedPool = p
	}
	return sharedPool
}

func TestMain(m *testing.M) {
	// Tests of filters expect that HDF5 has no plugins.
	os.Setenv("HDF5_PLUGIN_PATH", os.DevNull)
	code := m.Run()
	if sharedPool != nil {
		sharedPool.Close()
	}
	os.Exit(code)
}

func open(t *testing.T, o Options, paths ...string) *Input {
	t.Helper()
	o.Pool = children(t)
	in, err := Open(context.Background(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	return in
}

// indexOf reads the index of a file again.
func indexOf(t *testing.T, f *file) *grib.Index {
	t.Helper()
	idx, err := grib.ReadIndex(context.Background(), f.f, f.size, new(grib.GridCache))
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// stats are computed in the unit and order of the file, as in expected.json.
type stats struct {
	min, max, mean float64
	missing        int
	first          []float64
}

func fieldStats(t *testing.T, in *Input, e ensemble.Entry) stats {
	t.Helper()
	f, err := in.ReadOne(context.Background(), e)
	if err != nil {
		t.Fatalf("%s message %d: %v", filepath.Base(e.File), e.Message, err)
	}
	stored := make([]float32, len(f.Values))
	if err := order.ToStored(stored, f.Values, f.Grid); err != nil {
		t.Fatal(err)
	}
	conv := in.Conversion(e)
	native := make([]float64, len(stored))
	for i, v := range stored {
		native[i] = conv.ToNative(float64(v))
	}
	return statsOf(native)
}

func statsOf(values []float64) stats {
	s := stats{min: math.Inf(1), max: math.Inf(-1)}
	n := 0
	for i, x := range values {
		if i < 5 {
			s.first = append(s.first, x)
		}
		if x != x {
			s.missing++
			continue
		}
		s.min, s.max = min(s.min, x), max(s.max, x)
		s.mean += x
		n++
	}
	s.mean /= float64(n)
	return s
}

// near compares within the precision of float32 for values and, for a sum of n of
// them, of their magnitude.
func near(got, want, magnitude float64) bool {
	return math.Abs(got-want) <= 1e-6*math.Max(math.Abs(want), magnitude)+1e-30
}

func checkStats(t *testing.T, name string, got stats, want expectedField) {
	t.Helper()
	if got.missing != want.Missing {
		t.Errorf("%s: %d missing, want %d", name, got.missing, want.Missing)
	}
	if want.Min == nil {
		return
	}
	size := math.Max(math.Abs(*want.Min), math.Abs(*want.Max))
	if !near(got.min, *want.Min, size) || !near(got.max, *want.Max, size) || !near(got.mean, *want.Mean, size) {
		t.Errorf("%s: min max mean %.9g %.9g %.9g, want %.9g %.9g %.9g", name, got.min, got.max, got.mean, *want.Min, *want.Max, *want.Mean)
	}
	for i, w := range want.First5 {
		if i >= len(got.first) {
			break
		}
		if (w == nil) != (got.first[i] != got.first[i]) || w != nil && !near(got.first[i], *w, size) {
			t.Errorf("%s: stored value %d is %v, want %v", name, i, got.first[i], w)
		}
	}
}

// TestERA5 reads messages of the ensemble of a reanalysis.
func TestERA5(t *testing.T) {
	dir, files := expected(t, "era5-eda")
	for name, want := range files {
		t.Run(name, func(t *testing.T) {
			checkGRIB(t, open(t, Options{}, filepath.Join(dir, name)), want, made{})
		})
	}
}

// checkEntry compares metadata of an entry with ecCodes' keys.
func checkEntry(t *testing.T, e ensemble.Entry, w expectedField) {
	t.Helper()
	day := int64(e.Init.Year()*10000 + int(e.Init.Month())*100 + e.Init.Day())
	if clock := int64(e.Init.Hour()*100 + e.Init.Minute()); day != w.DataDate || clock != w.DataTime {
		t.Errorf("message %d: init %s, want %d %04d", e.Message, e.Init, w.DataDate, w.DataTime)
	}
	if w.Number != nil && e.Member != ensemble.NoMember && int(e.Member) != *w.Number {
		t.Errorf("message %d: member %s, want %d", e.Message, e.Member, *w.Number)
	}
	if (w.DataType == "pf" || w.DataType == "cf") && e.Member == ensemble.NoMember {
		t.Errorf("message %d: a %s without a member", e.Message, w.DataType)
	}
	if (w.DataType == "em" || w.DataType == "es") && e.Product == ensemble.MemberField {
		t.Errorf("message %d: type %s taken for a member", e.Message, w.DataType)
	}
	if w.TypeOfLevel == "isobaricInhPa" && math.Floor(e.Level.Value/100) != w.Level { // the level of ecCodes is an integer in hPa
		t.Errorf("message %d: level %s, want %g hPa", e.Message, e.Level, w.Level)
	}
	// ecCodes 2.28 does not support run length packing and has no name for it.
	if e.LevelType != w.TypeOfLevel || e.Packing != w.PackingType && w.PackingType != "grid_run_length" {
		t.Errorf("message %d: level type %s, packing %s; want %s, %s", e.Message, e.LevelType, e.Packing, w.TypeOfLevel, w.PackingType)
	}
	name := w.ShortName
	for prefix, statistic := range map[string]string{"min_": "minimum", "max_": "maximum", "avg_": "mean"} { // of ecCodes 2.50
		if rest, ok := strings.CutPrefix(name, prefix); ok && e.Statistic == statistic {
			name = rest
		}
	}
	if p, ok := periodNames[name]; ok && p.Statistic == e.Statistic { // other names of extremes
		name = p.variable
	}
	if e.Variable != name && e.Variable != aliases[name] && name != "unknown" && !slices.Contains(renamed[name], e.Variable) {
		t.Errorf("message %d: variable %s, want %s", e.Message, e.Variable, w.ShortName)
	}
	if kind, ok := gridKinds[w.GridType]; !ok || e.Grid.Kind != kind || e.Grid.Size() != w.Values {
		t.Errorf("message %d: grid %s, want %s of %d points", e.Message, e.Grid, w.GridType, w.Values)
	}
	if e.Grid.Rows == nil && (e.Grid.NX != w.Ni || e.Grid.NY != w.Nj) || e.Grid.Rows != nil && len(e.Grid.Rows) != w.Nj {
		t.Errorf("message %d: grid %s, want %d x %d", e.Message, e.Grid, w.Ni, w.Nj)
	}
	checkCorners(t, e, w)
	checkStep(t, e, w)
}

// renamed lists names that ecCodes 2.50 changed.
var renamed = map[string][]string{"mass_mixrat": {"co", "go3", "aermr01"}}

// gridKinds gives our grid kinds for those of ecCodes.
var gridKinds = map[string]ensemble.GridKind{"regular_ll": ensemble.RegularLatLon, "regular_gg": ensemble.RegularGaussian,
	"reduced_ll": ensemble.ReducedLatLon, "reduced_gg": ensemble.ReducedGaussian,
	"lambert": ensemble.Projected, "polar_stereographic": ensemble.Projected, "lambert_azimuthal_equal_area": ensemble.Projected, "mercator": ensemble.Projected, "rotated_ll": ensemble.Projected}

// checkCorners compares the coordinates of the first and last stored values with
// the header: for rotated grids in rotated coordinates, for reduced grids latitudes
// only, since the longitudes are those of the longest row. Headers of other
// projections have no corners, or, for the Mercator grid in use, one that
// contradicts its spacing; see TestProjectedCoordinates.
func checkCorners(t *testing.T, e ensemble.Entry, w expectedField) {
	t.Helper()
	if w.FirstLast == [4]float64{} || w.GridType == "mercator" {
		return
	}
	// Corner points in storage order: the first and last stored values.
	g := e.Grid
	n := g.Size()
	idx, back := make([]float32, n), make([]float32, n)
	for i := range idx {
		idx[i] = float32(i) // exact to 2^24 points
	}
	if n > 1<<24 {
		return
	}
	if err := order.ToStored(back, idx, g); err != nil {
		t.Fatal(err)
	}
	for k, p := range []int{int(back[0]), int(back[n-1])} {
		lat, lon := g.LatAt(p/g.NX, p%g.NX), g.LonAt(p/g.NX, p%g.NX)
		wlat, wlon := w.FirstLast[2*k], w.FirstLast[2*k+1]
		if w.GridType == "rotated_ll" {
			lat, lon = g.Y[p/g.NX], g.X[p%g.NX]
		}
		if g.Rows != nil {
			lon = wlon
		}
		if math.Abs(lat-wlat) > 2e-3 || math.Abs(math.Remainder(lon-wlon, 360)) > 2e-3 {
			t.Errorf("message %d: corner %d at %.4f N %.4f E, want %.4f %.4f", e.Message, k, lat, lon, wlat, wlon)
		}
	}
}

func checkStep(t *testing.T, e ensemble.Entry, w expectedField) {
	t.Helper()
	if s, ok := w.StepRange.(string); ok && !strings.ContainsAny(s, "m+") {
		end := s
		if i := strings.LastIndex(s[1:], "-"); i >= 0 {
			end = s[i+2:]
		}
		var hours float64
		if json.Unmarshal([]byte(end), &hours) == nil && e.Lead.Hours() != hours && !strings.Contains(s, "e+") {
			t.Errorf("message %d: lead %s, want the end of %s h", e.Message, e.Lead, s)
		}
	}
}

// Points in the middle and at the end of projected grids, from ecCodes 2.50.
func TestProjectedCoordinates(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	inputs := map[string]*Input{}
	for _, c := range []struct {
		file     string
		message  int
		at       int // in stored order; -1 is the last
		lat, lon float64
	}{
		{"grib1/lambert_2bit.grib1", 1, 75208, 52.18993, 0.10702},
		{"grib1/lambert_2bit.grib1", 1, -1, 58.93816, 13.33585},
		{"grib1/polar_stereographic_9bit.grib1", 1, 4275, 41.62096, 276.03049},
		{"grib1/polar_stereographic_9bit.grib1", 1, -1, 43.06425, 328.11306},
		{"grib2/jpeg2000_polar_stereographic.grib2", 1, 16466, 47.60676, 279.06622},
		{"grib2/lambert_eta.grib2", 1, 2015, 32.60495, 273.60353},
		{"grib2/polar_stereographic_5msg.grib2", 1, -1, 44.28844, 336.25349},
		{"grib2/projections_lambert_azimuthal.grib2", 1, 62208, 37.21561, 251.64485},
		{"grib2/projections_lambert_azimuthal.grib2", 2, 316666, 55.98158, 34.76802},
		// From grib_get_data of ecCodes 2.28. (The last row of the Mercator grid is
		// reversed.)
		{"grib2/complex_sd_mercator.grib2", 1, 75597, 19.51079, 296.01553},
		{"grib2/rotated_ll_24bit.grib2", 1, 0, 24.23417, 297.52742},
		{"grib2/rotated_ll_24bit.grib2", 1, 2999, 25.36785, 6.11437},
		{"grib2/rotated_ll_24bit.grib2", 1, -1, 56.73774, 38.53141},
		{"grib1/rotated_ll_24bit.grib1", 1, 0, 47.71390, 349.03711},
		{"grib1/rotated_ll_24bit.grib1", 1, 999, 48.14870, 356.24457},
		{"grib1/rotated_ll_24bit.grib1", 1, -1, 60.67081, 6.88494},
		{"grib1/reduced_ll.grib1", 1, 1, -90, 60},
		{"grib1/reduced_ll.grib1", 1, 999, -45, 333.52941},
		{"grib1/reduced_ll.grib1", 1, 2999, -7.5, 48.75},
		{"grib2/octahedral_o32.grib2", 1, 999, 37.67309, 105.65217},
		{"grib2/octahedral_o32.grib2", 1, 2999, -6.97653, 240.88235},
		{"grib2/octahedral_o32.grib2", 1, -1, -87.86380, 342},
		{"grib1/reduced_gg_n48_4msg.grib1", 1, 999, 60.62040, 126},
		{"grib1/reduced_gg_n48_4msg.grib1", 1, 2999, 36.37249, 302},
	} {
		if inputs[c.file] == nil {
			inputs[c.file] = open(t, Options{}, filepath.Join(dir, c.file))
		}
		e := inputs[c.file].Catalogue().Select(func(e ensemble.Entry) bool { return e.Message == c.message })[0]
		n := e.Grid.Size()
		idx, stored := make([]float32, n), make([]float32, n)
		for i := range idx {
			idx[i] = float32(i)
		}
		if err := order.ToStored(stored, idx, e.Grid); err != nil {
			t.Fatal(err)
		}
		p := int(stored[(c.at+n)%n])
		if lat, lon := e.Grid.LatAt(p/e.Grid.NX, p%e.Grid.NX), e.Grid.LonAt(p/e.Grid.NX, p%e.Grid.NX); math.Abs(lat-c.lat) > 2e-5 || math.Abs(math.Remainder(lon-c.lon, 360)) > 2e-5 {
			t.Errorf("%s point %d: %.5f N %.5f E, want %.5f %.5f", c.file, c.at, lat, lon, c.lat, c.lon)
		}
	}
}
