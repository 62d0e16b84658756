package fio

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
	"github.com/ensemble-weather/ensemble/io/grib"
	"github.com/ensemble-weather/ensemble/io/order"
)

// expectedField is what an independent decoder made of one field.
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
	Ni, Nj       int
	ScanningMode int
	Values       int
	Missing      int
	Min, Max     *float64
	Mean         *float64
	First5       []*float64 `json:"first5"`
	FirstLast    [4]float64 `json:"first_last_latlon"`
	Units        string     `json:"units"`
	Dims         []string   `json:"dims"`
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

// children gives the pool that all tests of the package use.
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
	idx, err := grib.ReadIndex(context.Background(), f.f, f.size, new(grib.Grids))
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// stats are taken in the file's unit and order, as expected.json has them.
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
	if err := order.Stored(stored, f.Values, f.Grid); err != nil {
		t.Fatal(err)
	}
	conv := in.Native(e)
	s := stats{min: math.Inf(1), max: math.Inf(-1)}
	n := 0
	for i, v := range stored {
		x := conv.ToNative(float64(v))
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

// near compares with what float32 can hold of values and, for a sum of n of them,
// of their magnitude.
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

// supported are the grid types that become Grids.
var supported = map[string]bool{"regular_ll": true, "regular_gg": true, "lambert": true, "polar_stereographic": true, "lambert_azimuthal_equal_area": true}

func TestGRIBZoo(t *testing.T) {
	for _, set := range []string{"formats", "era5-eda"} {
		dir, files := expected(t, set)
		for name, want := range files {
			if want.Format != "GRIB" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				in := open(t, Options{SkipBad: true}, filepath.Join(dir, name))
				cat := in.Catalogue()
				if cat.Messages != want.Messages {
					t.Errorf("%d messages, want %d", cat.Messages, want.Messages)
				}
				if err := in.Faults(); err != nil {
					t.Errorf("sound file called damaged: %v", err)
				}
				total := len(cat.Entries) + len(cat.Unused)
				if n := max(want.Count, len(want.Fields)); total != n {
					t.Errorf("%d fields accounted for, want %d", total, n)
				}
				// Position of an entry among all fields of its file.
				base := map[int]int{}
				at := 0
				for _, fd := range indexOf(t, in.files[0]).Fields {
					if fd.Sub == 1 {
						base[fd.Message] = at
					}
					at++
				}
				for _, e := range cat.Entries {
					w := want.field(t, base[e.Message]+e.Sub-1)
					if !supported[w.GridType] {
						t.Errorf("message %d on a %s grid was used", e.Message, w.GridType)
					}
					checkEntry(t, e, w)
					if name == "grib2/ieee64.grib2" {
						continue // see TestContradictoryIEEE
					}
					checkStats(t, e.Key.String(), fieldStats(t, in, e), w)
				}
				for _, u := range cat.Unused {
					t.Logf("unused: message %d %s: %s", u.Message, u.Name, u.Reason)
				}
			})
		}
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
	if w.TypeOfLevel == "isobaricInhPa" && math.Floor(e.Level.Value/100) != w.Level { // ecCodes' level is a whole number of hPa
		t.Errorf("message %d: level %s, want %g hPa", e.Message, e.Level, w.Level)
	}
	if w.Ni > 0 && (e.Grid.NX != w.Ni || e.Grid.NY != w.Nj) && w.GridType[:7] == "regular" {
		t.Errorf("message %d: grid %s, want %d x %d", e.Message, e.Grid, w.Ni, w.Nj)
	}
	if w.FirstLast == [4]float64{} {
		return // projections: see TestProjectedCoordinates
	}
	// Corner points in stored order: the first and last stored value's place.
	g := e.Grid
	n := g.Size()
	idx, back := make([]float32, n), make([]float32, n)
	for i := range idx {
		idx[i] = float32(i) // exact to 2^24 points
	}
	if n > 1<<24 {
		return
	}
	if err := order.Stored(back, idx, g); err != nil {
		t.Fatal(err)
	}
	for k, p := range []int{int(back[0]), int(back[n-1])} {
		lat, lon := g.LatAt(p/g.NX, p%g.NX), g.LonAt(p/g.NX, p%g.NX)
		wlat, wlon := w.FirstLast[2*k], w.FirstLast[2*k+1]
		if math.Abs(lat-wlat) > 2e-3 || math.Abs(math.Remainder(lon-wlon, 360)) > 2e-3 {
			t.Errorf("message %d: corner %d at %.4f N %.4f E, want %.4f %.4f", e.Message, k, lat, lon, wlat, wlon)
		}
	}
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

// ieee64.grib2 says 64-bit numbers and holds 32-bit ones (272.56 K read as pairs is
// 2e17): to be refused, not read either way.
func TestContradictoryIEEE(t *testing.T) {
	in := open(t, Options{}, filepath.Join(testdata.Dir(t, "formats"), "grib2", "ieee64.grib2"))
	_, err := in.ReadOne(context.Background(), in.Catalogue().Entries[0])
	if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "84 values of 8 bytes, section 7 holds 336") {
		t.Errorf("got %v", err)
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
		if err := order.Stored(stored, idx, e.Grid); err != nil {
			t.Fatal(err)
		}
		p := int(stored[(c.at+n)%n])
		if lat, lon := e.Grid.LatAt(p/e.Grid.NX, p%e.Grid.NX), e.Grid.LonAt(p/e.Grid.NX, p%e.Grid.NX); math.Abs(lat-c.lat) > 2e-5 || math.Abs(lon-c.lon) > 2e-5 {
			t.Errorf("%s point %d: %.5f N %.5f E, want %.5f %.5f", c.file, c.at, lat, lon, c.lat, c.lon)
		}
	}
}
