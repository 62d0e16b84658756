package product_test

import (
	"context"
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/product"
)

// asRate are sums that GRIB2 encodes as the accumulation of a rate, as ecCodes does. GDAL and wgrib2 name the rate and
// its unit, and state the accumulation beside it.
//
// Source: FM 92 GRIB2, code tables 4.2 and 4.10.
var asRate = []string{"tp", "cp"}

// TestVocabularyInOtherReaders: CDO, GDAL and, if it is installed, wgrib2 read a sample of the vocabulary as it was
// written. TestLongVocabularyInOtherReaders has all of it.
func TestVocabularyInOtherReaders(t *testing.T) {
	for _, name := range []string{"2t", "tp", "tcc"} {
		v, _ := ensemble.VariableNamed(name)
		checkInOtherReaders(t, v, product.Mean)
	}
}

// checkInOtherReaders writes one field of a variable in GRIB2 and in NetCDF, and compares unit, times and extremes that
// other readers find, of which GDAL prints three digits. What they print on standard error is an error.
func checkInOtherReaders(t *testing.T, v ensemble.Variable, kind product.Kind) {
	t.Helper()
	p := testProduct(globe(ensemble.SourceOrder{}))
	f := product.Field{Variable: v.Name, Level: v.Level, Lead: ensemble.Lead(24 * time.Hour), Kind: kind, Members: 5}
	if v.OnManyLevels() {
		f.Level = ensemble.PressureLevel(850)
	}
	if v.Period != "" {
		f.Period = 24 * time.Hour
	}
	if kind == product.Member {
		f.Member = 3
	}
	for i := range p.Grid.Size() {
		f.Values = append(f.Values, float32(i%10)/16)
	}
	p.Fields = []product.Field{f}
	valid := p.Init.Valid(f.Lead)
	native := strings.NewReplacer("gpm", "m").Replace(strings.ReplaceAll(eccodesNames[v.Name][1], "**", ""))
	scale := 1.0
	if native == "%" && v.Unit == "1" {
		scale = 100
	}
	dir := t.TempDir()
	grib, cdf, plain := filepath.Join(dir, "p.grib2"), filepath.Join(dir, "cdo.nc"), filepath.Join(dir, "p.nc")
	if err := product.WriteGRIB2(context.Background(), encoder(t), grib, p, product.Options{Packing: "grid_simple"}); err != nil {
		t.Fatal(err)
	}
	for path, profile := range map[string]product.Profile{cdf: product.CDOProfile, plain: product.XarrayProfile} {
		if err := product.WriteNetCDF(context.Background(), encoder(t), path, p, product.Options{Profile: profile}); err != nil {
			t.Fatal(err)
		}
	}
	same := func(reader, what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s %s: %s has %s %q, want %q", v.Name, kind, reader, what, got, want)
		}
	}
	extremes := func(reader string, low, high, scale float64) {
		t.Helper()
		if math.Abs(low) > 6e-4*scale || math.Abs(high-scale*9/16) > 6e-4*scale {
			t.Errorf("%s %s: %s has values from %g to %g, want 0 to %g", v.Name, kind, reader, low, high, scale*9/16)
		}
	}
	cdo := tool(t, "cdo")
	type units struct {
		unit  string
		scale float64
	}
	opened := map[string]units{grib: {native, scale}, cdf: {v.Unit, 1}}
	if kind != product.Member { // CDO has no dimension of members beside one of levels
		opened[plain] = units{v.Unit, 1}
	}
	for path, want := range opened {
		reader := "CDO on " + filepath.Base(path)
		unit := strings.ReplaceAll(strings.Trim(strings.TrimSpace(run(t, cdo, "-s", "showunit", path)), "[]"), "**", "")
		same(reader, "unit", strings.NewReplacer("gpm", "m", "(0 - 1)", "1").Replace(unit), want.unit)
		words := strings.Fields(strings.Split(strings.TrimSpace(run(t, cdo, "-s", "infon", path)), "\n")[1])
		same(reader, "valid time", words[2]+" "+words[3], valid.Format(time.DateTime))
		extremes(reader, number(t, words[8]), number(t, words[10]), want.scale)
	}
	name := strings.TrimSpace(run(t, cdo, "-s", "showname", cdf))
	sets := map[string]float64{grib: scale, "NETCDF:" + cdf + ":" + name: 1}
	if kind != product.Member { // GDAL 3.6 warns about each further dimension
		sets["NETCDF:"+plain+":"+name] = 1
	}
	for set, want := range sets {
		var info struct {
			Metadata map[string]map[string]string
			Bands    []struct {
				ComputedMin, ComputedMax float64
				Metadata                 map[string]map[string]string
			}
		}
		// GDAL converts K to degrees Celsius by default.
		if err := json.Unmarshal([]byte(run(t, tool(t, "gdalinfo"), "--config", "GRIB_NORMALIZE_UNITS", "NO", "-json", "-mm", set)), &info); err != nil {
			t.Fatal(err)
		}
		reader := "GDAL on " + filepath.Base(set)
		band := info.Bands[0]
		extremes(reader, band.ComputedMin, band.ComputedMax, want)
		if set != grib {
			for key, value := range info.Metadata[""] {
				if key == set[strings.LastIndex(set, ":")+1:]+"#units" {
					same(reader, "unit", value, v.Unit)
				}
			}
			continue
		}
		same(reader, "valid time", band.Metadata[""]["GRIB_VALID_TIME"], strconv.FormatInt(valid.Unix(), 10))
		same(reader, "initialisation", band.Metadata[""]["GRIB_REF_TIME"], strconv.FormatInt(p.Init.Unix(), 10))
		if unit := band.Metadata[""]["GRIB_UNIT"]; slices.Contains(asRate, v.Name) && kind != product.Spread {
			same(reader, "unit of the rate", unit, "[kg/(m^2*s)]")
		}
	}
	if wgrib2, err := exec.LookPath("wgrib2"); err == nil {
		words := strings.Split(strings.TrimSpace(run(t, wgrib2, "-vt", "-ftime", "-min", "-max", grib)), ":")
		want := map[string]string{"": "24 hour fcst", "sum": "0-1 day acc fcst", "maximum": "0-1 day max fcst"}[v.Period]
		if words[3] == "1 day fcst" {
			words[3] = "24 hour fcst"
		}
		same("wgrib2", "valid time", words[2], "vt="+valid.Format("2006010215"))
		same("wgrib2", "time", words[3], want)
		extremes("wgrib2", number(t, strings.TrimPrefix(words[4], "min=")), number(t, strings.TrimPrefix(words[5], "max=")), scale)
	}
}

// number parses a number of a reader.
func number(t *testing.T, text string) float64 {
	t.Helper()
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
