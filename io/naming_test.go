package fio_test

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/internal/testnetcdf"
	fio "github.com/ensemble-weather/ensemble/io"
)

// ownFile is a NetCDF file with a variable of two members at two initialisations; its values are 10 everywhere.
func ownFile(t *testing.T, name string, attributes map[string]string, more ...testnetcdf.Variable) string {
	path := filepath.Join(t.TempDir(), "own.nc")
	values := slices.Repeat([]float64{10}, 2*2*3*4)
	all := append(testnetcdf.Coordinates(2, 3, 4, 24), testnetcdf.Variable{Name: name, Dimensions: []string{"init:2", "member:2", "lat:3", "lon:4"}, Attributes: attributes, Values: values})
	testnetcdf.Write(t, path, append(all, more...)...)
	return path
}

// readAll opens files and returns the catalogue with the first value of each field.
func readAll(t *testing.T, o fio.Options, paths ...string) (cat *ensemble.Catalogue, values []float32, in *fio.Input) {
	t.Helper()
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	in, err := fio.Open(context.Background(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Close)
	cat = in.Catalogue()
	values = make([]float32, len(cat.Entries))
	if err := in.Read(context.Background(), cat.Entries, func(i int, f *ensemble.Field) error {
		values[i] = f.Values[0]
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return cat, values, in
}

// TestNaming: variables, levels and units that are stated replace those of NetCDF files, and values are converted.
func TestNaming(t *testing.T) {
	at := func(s string) ensemble.VariableAt {
		v, err := ensemble.ParseVariableAt(s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		name, own  string
		attributes map[string]string
		names      string // NAME=VARIABLE@LEVEL
		units      string // NAME=UNIT
		want       string // variable, level and unit
		value      float64
		warning    string
	}{
		{"nothing stated", "T850_ens", map[string]string{"units": "degC"}, "", "", "t 850hPa K", 283.15, "`names: {T850_ens: t@850hPa}` under `data:`"},
		{"own name", "xyz", map[string]string{"units": "K"}, "", "", "xyz surface K", 10, ""},
		{"name", "xyz", map[string]string{"units": "K"}, "xyz=t@850hPa", "", "t 850hPa K", 10, ""},
		{"name of one level", "xyz", map[string]string{"units": "degC"}, "xyz=2t", "", "2t 2m K", 283.15, ""},
		{"another name than guessed", "T850_ens", map[string]string{"units": "degC"}, "T850_ens=t@500hPa", "", "t 500hPa K", 283.15, ""},
		{"misstated standard name", "wind", map[string]string{"units": "m s-1", "standard_name": "air_temperature"}, "wind=10si", "", "10si 10m m s-1", 10, ""},
		{"missing unit", "T850_ens", nil, "", "T850_ens=degC", "t 850hPa K", 283.15, ""},
		{"misstated unit", "T850_ens", map[string]string{"units": "K"}, "", "T850_ens=degC", "t 850hPa K", 283.15, "its unit \"K\" is replaced by \"degC\", as stated for it"},
		{"both", "x", nil, "x=tp", "x=mm", "tp surface kg m-2", 10, ""},
		{"scaled unit", "x", nil, "x=msl", "x=100 Pa", "msl msl Pa", 1000, ""},
		{"scope", "x", nil, "forecasts:x=tp", "analyses:x=m", "tp surface ", 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := ensemble.Naming{Names: map[string]ensemble.VariableAt{}, Units: map[string]string{}}
			if key, value, ok := strings.Cut(c.names, "="); ok {
				n.Names[key] = at(value)
			}
			if key, value, ok := strings.Cut(c.units, "="); ok {
				n.Units[key] = value
			}
			cat, values, in := readAll(t, fio.Options{Naming: n.In(ensemble.ForecastFiles)}, ownFile(t, c.own, c.attributes))
			if len(cat.Entries) != 4 {
				t.Fatalf("%d fields, want 4: %v", len(cat.Entries), cat.Unused)
			}
			e := cat.Entries[0]
			if got := e.Variable + " " + e.Level.String() + " " + e.Unit; got != c.want || math.Abs(float64(values[0])-c.value) > 1e-4 {
				t.Errorf("%s of %g, want %s of %g", got, values[0], c.want, c.value)
			}
			if e.Name != c.own {
				t.Errorf("the name in the file is %q", e.Name)
			}
			found := strings.Join(cat.Warnings, "\n")
			if c.warning != "" && !strings.Contains(found, c.warning) || c.warning == "" && strings.Contains(found, "replaced") {
				t.Errorf("warnings %q, want %q", found, c.warning)
			}
			var stated []string // keys that match, once
			for _, s := range []string{c.names, c.units} {
				if key, _, _ := strings.Cut(s, "="); key != "" && !strings.HasPrefix(key, "analyses:") && !slices.Contains(stated, key) {
					stated = append(stated, key)
				}
			}
			keys, names := in.NamingUse()
			if !slices.Equal(keys, stated) || slices.Contains(names, c.own) != (len(stated) > 0) {
				t.Errorf("keys %q, want %q; names %q", keys, stated, names)
			}
		})
	}
}

// TestNamingOfCoordinates: the unit of a level that the file does not state, and a scalar level that it misstates.
func TestNamingOfCoordinates(t *testing.T) {
	level := func(attributes map[string]string) testnetcdf.Variable {
		return testnetcdf.Variable{Name: "plev", Attributes: attributes, Values: []float64{1500}}
	}
	path := ownFile(t, "t", map[string]string{"units": "K", "coordinates": "plev lead"}, level(nil))
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	in, err := fio.Open(context.Background(), []string{path}, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if cat := in.Catalogue(); len(cat.Entries) != 0 || !strings.Contains(cat.Unused[0].Reason, "could be Pa or hPa") {
		t.Fatalf("%v %v", cat.Entries, cat.Unused)
	}
	cat, _, _ := readAll(t, fio.Options{Naming: ensemble.Naming{Units: map[string]string{"plev": "Pa"}}}, path)
	if len(cat.Entries) != 4 || cat.Entries[0].Level != ensemble.PressureLevel(15) {
		t.Errorf("with the unit of its level: %v %v", cat.Entries, cat.Unused)
	}
	path = ownFile(t, "t", map[string]string{"units": "K", "coordinates": "plev lead"}, level(map[string]string{"units": "Pa"}))
	cat, _, _ = readAll(t, fio.Options{Naming: ensemble.Naming{Names: map[string]ensemble.VariableAt{"t": {Variable: "t", Level: ensemble.PressureLevel(850), HasLevel: true}}}}, path)
	if len(cat.Entries) != 4 || cat.Entries[0].Level != ensemble.PressureLevel(850) || !strings.Contains(strings.Join(cat.Warnings, "\n"), "its level is stated as 850hPa") {
		t.Errorf("with another level: %v %v %q", cat.Entries, cat.Unused, cat.Warnings)
	}
}

// TestNamingOfGRIB: a message's variable, level and unit by the short name of ecCodes.
func TestNamingOfGRIB(t *testing.T) {
	path := filepath.Join(testdata.Dir(t, "formats"), "grib2", "same_field_simple.grib2")
	plain, _, _ := readAll(t, fio.Options{}, path)
	e := plain.Entries[0]
	n := ensemble.Naming{Names: map[string]ensemble.VariableAt{e.Name: {Variable: "own", Level: ensemble.PressureLevel(700), HasLevel: true}}, Units: map[string]string{e.Name: "hPa"}}
	cat, _, in := readAll(t, fio.Options{Naming: n}, path)
	i := slices.IndexFunc(cat.Entries, func(x ensemble.Entry) bool { return x.Message == e.Message && x.Sub == e.Sub })
	if x := cat.Entries[i]; x.Variable != "own" || x.Level != ensemble.PressureLevel(700) || x.NativeUnit != "hPa" {
		t.Errorf("%s is %s in %s", e, x, x.NativeUnit)
	}
	if keys, names := in.NamingUse(); !slices.Equal(keys, []string{e.Name}) || !slices.Contains(names, e.Name) {
		t.Errorf("keys %q, names %q", keys, names)
	}
}

// TestLeadsOfFiles: a lead is stated for files without one, beside initialisations, or beside valid times of members; it
// does not concern analyses, nor files with leads.
func TestLeadsOfFiles(t *testing.T) {
	write := func(name, time string, lead []testnetcdf.Variable, dims ...string) string {
		path := filepath.Join(t.TempDir(), name)
		c := testnetcdf.Coordinates(2, 3, 4, 24)
		c[2].Name, c[2].Dimensions, c[2].Attributes["standard_name"] = time, []string{time + ":2"}, map[string]string{"init": "forecast_reference_time", "time": "time"}[time]
		n := 2 * 3 * 4
		if len(dims) == 4 {
			n *= 2
		}
		testnetcdf.Write(t, path, append(append(slices.Clone(c[:3]), lead...), testnetcdf.Variable{Name: "t2m", Dimensions: dims, Attributes: map[string]string{"units": "K"}, Values: slices.Repeat([]float64{280}, n)})...)
		return path
	}
	own := testnetcdf.Coordinates(2, 3, 4, 12)[3:]
	stated := map[string]ensemble.Lead{"fc_*.nc": ensemble.Lead(36 * time.Hour)}
	for _, c := range []struct {
		what, path, scope string
		first             string // initialisation
		lead              time.Duration
		used              bool
	}{
		{"initialisations", write("fc_a.nc", "init", nil, "init:2", "member:2", "lat:3", "lon:4"), "", "2024-01-01T00", 36 * time.Hour, true},
		{"no members", write("fc_a.nc", "init", nil, "init:2", "lat:3", "lon:4"), ensemble.ForecastFiles, "2024-01-01T00", 36 * time.Hour, true},
		{"valid times", write("fc_a.nc", "time", nil, "time:2", "member:2", "lat:3", "lon:4"), "", "2023-12-30T12", 36 * time.Hour, true},
		{"member in the name", write("fc_p03.nc", "time", nil, "time:2", "lat:3", "lon:4"), "", "2023-12-30T12", 36 * time.Hour, true},
		{"own lead", write("fc_a.nc", "init", own, "init:2", "member:2", "lat:3", "lon:4"), "", "2024-01-01T00", 12 * time.Hour, false},
		{"other name", write("a.nc", "time", nil, "time:2", "member:2", "lat:3", "lon:4"), ensemble.ForecastFiles, "2024-01-01T00", 0, false},
		{"without members", write("fc_a.nc", "time", nil, "time:2", "lat:3", "lon:4"), "", "2024-01-01T00", 0, false},
		{"analyses", write("fc_a.nc", "time", nil, "time:2", "lat:3", "lon:4"), ensemble.AnalysisFiles, "2024-01-01T00", 0, false},
	} {
		cat, _, in := readAll(t, fio.Options{Naming: ensemble.Naming{Leads: stated}.In(c.scope)}, c.path)
		if len(cat.Entries) == 0 {
			t.Errorf("%s: no fields: %v", c.what, cat.Unused)
			continue
		}
		if e := cat.Entries[0]; e.Init.Format("2006-01-02T15") != c.first || time.Duration(e.Lead) != c.lead || in.UsesLead("fc_*.nc") != c.used {
			t.Errorf("%s: init %s, lead %s, used %v; want %s, %s, %v", c.what, e.Init, e.Lead, in.UsesLead("fc_*.nc"), c.first, c.lead, c.used)
		}
	}
}

// Valid times of members without a lead are read as forecasts of 0h with a warning. Reanalyses, whose only member is
// number 0, need none.
func TestMembersWithValidTimes(t *testing.T) {
	for name, members := range map[string]int{"control": 1, "ensemble": 2} {
		c := testnetcdf.Coordinates(2, 3, 4, 24)
		c[2].Name, c[2].Dimensions, c[2].Attributes["standard_name"] = "time", []string{"time:2"}, "time"
		number := testnetcdf.Variable{Name: "number", Attributes: map[string]string{"standard_name": "realization", "units": "1"}, Values: []float64{0, 1}[:members]}
		dims := []string{"time:2", "lat:3", "lon:4"}
		if members > 1 {
			number.Dimensions = []string{"number:2"}
			dims = append([]string{"number:2"}, dims...)
		}
		path := filepath.Join(t.TempDir(), "an.nc")
		testnetcdf.Write(t, path, append(slices.Clone(c[:3]), number, testnetcdf.Variable{Name: "t2m", Dimensions: dims, Attributes: map[string]string{"units": "K", "coordinates": "number"}, Values: slices.Repeat([]float64{280}, members*24)})...)
		cat, _, _ := readAll(t, fio.Options{}, path)
		warned := slices.ContainsFunc(cat.Warnings, func(w string) bool { return strings.Contains(w, "file_leads") })
		if len(cat.Entries) != 2*members || warned != (members > 1) {
			t.Errorf("%s: %d fields, warnings %q", name, len(cat.Entries), cat.Warnings)
		}
	}
}
