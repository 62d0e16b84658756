package product_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/io/product"
)

// writeGRIB2 writes the fields of one variable and kind.
func writeGRIB2(t *testing.T, p *product.Product, variable string, kind product.Kind, o product.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), variable+"_"+string(kind)+".grib2")
	q := p.Select(func(f product.Field) bool { return f.Variable == variable && f.Kind == kind })
	if err := product.WriteGRIB2(context.Background(), encoder(t), path, q, o); err != nil {
		t.Fatal(err)
	}
	return path
}

// gribKeys reads keys of all messages with grib_get.
func gribKeys(t *testing.T, path string, keys ...string) []string {
	t.Helper()
	out := run(t, tool(t, "grib_get"), "-p", strings.Join(keys, ","), path)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// quantum is half a quantisation step of 16 bits over the range of a marked field.
const quantum = (markSW + 1) / 65535

// checkMarks compares a field in GRIB with marked(base), within the precision of
// the packing.
func checkMarks(t *testing.T, what string, ne, sw []float64, bases ...float64) {
	t.Helper()
	for k, base := range bases {
		wantNE, wantSW := wantMarks(base)
		if len(ne) <= k || math.Abs(ne[k]-wantNE) > quantum || math.Abs(sw[k]-wantSW) > quantum {
			t.Errorf("%s: %v at 90 E 45 N, %v at 10 W 30 S; want %g and %g at position %d", what, ne, sw, wantNE, wantSW, k)
		}
	}
}

func TestGRIB2InCfgrib(t *testing.T) {
	needPython(t)
	for _, order := range orders {
		p := testProduct(globe(order.src))
		for kind, scale := range map[product.Kind]float64{product.Mean: 1, product.Spread: 0.01} {
			path := writeGRIB2(t, p, "t", kind, product.Options{})
			v := xarrayView(t, path)
			f, ok := v.Vars["t"]
			if !ok || len(v.Vars) != 1 {
				t.Fatalf("%s: variables %v", order.name, v.Vars)
			}
			checkMarks(t, order.name, f.NE, f.SW, 250*scale, 240*scale)
			if f.Nulls != 2 || f.Attrs["units"] != "K" || f.Attrs["standard_name"] != "air_temperature" {
				t.Errorf("%s: %d missing, attributes %v", order.name, f.Nulls, f.Attrs)
			}
			if !reflect.DeepEqual(v.Coords["isobaricInhPa"], []float64{850, 500}) || v.Scalars["step"] != 48*3600 ||
				v.Scalars["time"] != float64(testInit.Unix()) || v.Scalars["valid_time"] != float64(testInit.Valid(testLead).Unix()) {
				t.Errorf("%s: coordinates %v %v", order.name, v.Coords["isobaricInhPa"], v.Scalars)
			}
		}
		v := xarrayView(t, writeGRIB2(t, testProduct(globe(ensemble.SourceOrder{})), "2t", product.Spread, product.Options{Packing: "grid_simple"}))
		if f, ok := v.Vars["t2m"]; !ok || v.Scalars["heightAboveGround"] != 2 {
			t.Errorf("2t: %v %v", v.Vars, v.Scalars)
		} else {
			checkMarks(t, "2t", f.NE, f.SW, 2.8)
		}
	}
}

func TestGRIB2InCDO(t *testing.T) {
	for _, order := range orders {
		for _, lon := range []product.Longitudes{product.KeepLongitudes, product.From180} {
			path := writeGRIB2(t, testProduct(globe(order.src)), "t", product.Spread, product.Options{Longitude: lon})
			cdoMarks(t, order.name, path, "t", "85000", 2.5, quantum)
		}
	}
}

// All scanning modes, by ecCodes: latitudes and longitudes match the values.
// ecCodes does not support alternating rows; our own reader checks these.
func TestGRIB2Orders(t *testing.T) {
	get := tool(t, "grib_get_data")
	for _, order := range orders {
		for _, scan := range []product.Scan{product.ReadableScan, product.KeepScan} {
			path := writeGRIB2(t, testProduct(globe(order.src)), "2t", product.Mean, product.Options{Scan: scan})
			want := order.src.ScanningMode
			if scan == product.ReadableScan {
				want &= 0x40
			}
			if got := gribKeys(t, path, "scanningMode")[0]; got != strconv.Itoa(want) {
				t.Errorf("%s: scanning mode %s, want %d", order.name, got, want)
			}
			if want&0x10 != 0 {
				continue
			}
			ne, sw := wantMarks(280)
			found := 0
			for line := range strings.Lines(run(t, get, path)) {
				var lat, lon, v float64
				if n, _ := fmt.Sscan(line, &lat, &lon, &v); n != 3 {
					continue
				}
				for _, m := range [][3]float64{{neLat, neLon, ne}, {swLat, swLon, sw}} {
					if math.Abs(lat-m[0]) < 1e-3 && math.Abs(math.Remainder(lon-m[1], 360)) < 1e-3 {
						found++
						if math.Abs(v-m[2]) > quantum {
							t.Errorf("%s: %g at %g N %g E, want %g", order.name, v, lat, lon, m[2])
						}
					}
				}
			}
			if found != 2 {
				t.Errorf("%s: %d of 2 marks found", order.name, found)
			}
		}
	}
}

// Keys that identify a message, and its packing.
func TestGRIB2Keys(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Fields = append(p.Fields, product.Field{Variable: "tp", Lead: testLead, Kind: product.Mean, Values: marked(p.Grid.Size(), 1), Period: 6 * time.Hour, Members: 4},
		product.Field{Variable: "msl", Level: ensemble.Level{Kind: ensemble.MeanSea}, Lead: ensemble.Lead(90 * time.Minute), Kind: product.RawSpread, Values: make([]float32, p.Grid.Size())})
	keys := []string{"edition", "shortName", "productDefinitionTemplateNumber", "derivedForecast", "numberOfForecastsInEnsemble", "typeOfGeneratingProcess",
		"typeOfLevel", "level", "stepRange", "dataDate", "validityDate", "validityTime", "packingType"}
	for _, c := range []struct {
		variable string
		kind     product.Kind
		packing  string
		want     string
	}{
		{"t", product.Mean, "", "2 t 2 0 5 13 isobaricInhPa 850 48 20260101 20260103 0 grid_ccsds"},
		{"t", product.Spread, "grid_simple", "2 t 2 4 5 13 isobaricInhPa 850 48 20260101 20260103 0 grid_simple"},
		{"gh", product.Mean, "", "2 gh 2 0 5 13 isobaricInhPa 850 48 20260101 20260103 0 grid_ccsds"},
		{"2t", product.Spread, "", "2 2t 2 4 5 13 heightAboveGround 2 48 20260101 20260103 0 grid_ccsds"},
		{"tp", product.Mean, "", "2 tp 12 0 4 13 surface 0 42-48 20260101 20260103 0 grid_ccsds"},
		{"msl", product.RawSpread, "grid_simple", "2 msl 2 4 5 4 meanSea 0 90 20260101 20260101 130 grid_simple"},
	} {
		got := gribKeys(t, writeGRIB2(t, p, c.variable, c.kind, product.Options{Packing: c.packing}), keys...)[0]
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s\n     %v", c.variable, c.kind, got, c.want, keys)
		}
	}
}

// gaussian returns the regular Gaussian grid N16.
func gaussian() *ensemble.Grid {
	g := &ensemble.Grid{Kind: ensemble.RegularGaussian, NX: 64, NY: 32, Lat: ensemble.GaussianLatitudes(32)}
	for i := range g.NX {
		g.Lon = append(g.Lon, 5.625*float64(i))
	}
	return g
}

// testForecast has known values: 1000 × lead position + 100 × member + 10 ×
// variable + level, plus a fraction that increases with the point.
func testForecast(g *ensemble.Grid) *ensemble.Forecast {
	axes := ensemble.Axes{Variables: []string{"t", "vo"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)},
		Leads: []ensemble.Lead{0, ensemble.Lead(24 * time.Hour), ensemble.Lead(48 * time.Hour)}}
	f := ensemble.NewForecast(testInit, axes, []ensemble.Member{0, 1, 2, 3}, g)
	for t := range axes.Leads {
		for m := range f.Members {
			for v := range axes.Variables {
				for l := range axes.Levels {
					x := f.Field(t, m, v, l)
					for p := range x {
						x[p] = float32(1000*t + 100*m + 10*v + l)
						x[p] += float32(p) / float32(len(x))
					}
				}
			}
		}
	}
	return f
}

func TestEnsembleGRIB2(t *testing.T) {
	f := testForecast(gaussian())
	path := filepath.Join(t.TempDir(), "ens.grib2")
	if err := product.WriteEnsembleGRIB2(context.Background(), encoder(t), path, f, product.Options{Packing: "grid_simple"}); err != nil {
		t.Fatal(err)
	}
	got := gribKeys(t, path, "shortName", "level", "stepRange", "number", "productDefinitionTemplateNumber", "typeOfEnsembleForecast",
		"numberOfForecastsInEnsemble", "dataType", "gridType", "N", "Ni", "Nj", "scanningMode")
	if len(got) != 3*4*2*2 {
		t.Fatalf("%d messages, want 48", len(got))
	}
	for i, want := range map[int]string{
		0:  "t 850 0 0 1 1 4 cp regular_gg 16 64 32 0",
		47: "vo 500 48 3 1 3 4 cp regular_gg 16 64 32 0",
	} {
		if strings.TrimSpace(got[i]) != want {
			t.Errorf("message %d: %s, want %s", i+1, got[i], want)
		}
	}
	v := xarrayView(t, path)
	if d := v.Dims; d["number"] != 4 || d["step"] != 3 || d["isobaricInhPa"] != 2 || d["latitude"] != 32 || d["longitude"] != 64 {
		t.Errorf("dimensions %v", d)
	}
	var want float64
	for k := range 3 * 4 * 2 {
		for _, x := range f.Field(k%3, k/3%4, 0, k/12) {
			want += float64(x)
		}
	}
	if got := v.Vars["t"].Sum; math.Abs(got-want) > 1e-6*want {
		t.Errorf("sum of t %g, want %g", got, want)
	}
	run(t, tool(t, "cdo"), "-s", "infon", path)
}

// A clone keeps centre, grid, level and times of its real template; only the
// statistic changes.
func TestGRIB2Clone(t *testing.T) {
	dir := testdata.Dir(t, "formats")
	for _, c := range []struct {
		file, variable string
		step           float64 // of the longitudes
	}{
		{"grib2/ens_z500_51_members_ccsds.grib2", "z", 1},
		{"grib2/ccsds_2t.grib2", "2t", 15},
	} {
		message := firstMessage(t, filepath.Join(dir, c.file))
		src := filepath.Join(t.TempDir(), "src.grib2")
		if err := os.WriteFile(src, message, 0o644); err != nil {
			t.Fatal(err)
		}
		var ni, nj int
		var lat1, lat2, lon1 float64
		geometry := gribKeys(t, src, "Ni", "Nj", "latitudeOfFirstGridPointInDegrees", "latitudeOfLastGridPointInDegrees", "longitudeOfFirstGridPointInDegrees")[0]
		if _, err := fmt.Sscan(geometry, &ni, &nj, &lat1, &lat2, &lon1); err != nil {
			t.Fatalf("%s: %s: %v", c.file, geometry, err)
		}
		g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: ni, NY: nj, Source: ensemble.SourceOrder{FirstLon: lon1}}
		for j := range nj {
			g.Lat = append(g.Lat, lat1+float64(j)*(lat2-lat1)/float64(nj-1))
		}
		for i := range ni {
			g.Lon = append(g.Lon, lon1+float64(i)*c.step)
		}
		p := testProduct(globe(ensemble.SourceOrder{}))
		p.Grid = g
		v := make([]float32, g.Size())
		v[3*ni+7] = 1
		p.Fields = []product.Field{{Variable: c.variable, Level: ensemble.PressureLevel(500), Kind: product.Spread, Values: v, Template: message, Members: 51}}
		path := writeGRIB2(t, p, c.variable, product.Spread, product.Options{})
		same := []string{"centre", "paramId", "typeOfLevel", "level", "dataDate", "dataTime", "stepRange", "gridType", "Ni", "Nj", "scanningMode",
			"latitudeOfFirstGridPoint", "longitudeOfFirstGridPoint", "longitudeOfLastGridPoint", "iDirectionIncrement", "shapeOfTheEarth"}
		if got, want := gribKeys(t, path, same...), gribKeys(t, src, same...); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the clone has\n%v, the source\n%v", c.file, got, want)
		}
		if got := strings.TrimSpace(gribKeys(t, path, "productDefinitionTemplateNumber", "derivedForecast", "numberOfForecastsInEnsemble", "typeOfGeneratingProcess", "packingType", "dataType", "max")[0]); got != "2 4 51 13 grid_ccsds es 1" {
			t.Errorf("%s: %s", c.file, got)
		}
	}
}

// firstMessage returns the first message of a GRIB2 file.
func firstMessage(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range b[8:16] {
		n = n<<8 | int(c)
	}
	return b[:n]
}

// Fields that GRIB2 cannot encode are rejected with a remedy, and no file is left.
func TestGRIB2Refusals(t *testing.T) {
	p := testProduct(globe(ensemble.SourceOrder{}))
	g := projected(ensemble.SourceOrder{ScanningMode: -1})
	onProjection := *p
	onProjection.Grid = g
	onProjection.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Kind: product.Mean, Values: make([]float32, g.Size())}}
	unknown := *p
	unknown.Fields = []product.Field{{Variable: "hail", Unit: "m", Kind: product.Mean, Values: make([]float32, p.Grid.Size())}}
	north := globe(ensemble.SourceOrder{})
	north.NY, north.Lat = 6, north.Lat[:6]
	small := *p
	small.Grid = north
	small.Fields = []product.Field{{Variable: "t", Level: ensemble.PressureLevel(850), Kind: product.Mean, Values: make([]float32, north.Size())}}
	otherGrid := *p
	otherGrid.Fields = []product.Field{p.Fields[0]}
	otherGrid.Fields[0].Template = firstMessage(t, writeGRIB2(t, &small, "t", product.Mean, product.Options{}))
	mixed := *p
	for _, c := range []struct {
		name string
		p    *product.Product
		code exit.Code
		text string
	}{
		{"projection without template", &onProjection, exit.Usage, "projected"},
		{"unknown variable", &unknown, exit.Usage, "hail"},
		{"template of another grid", &otherGrid, exit.BadData, "the template has Nj = 6"},
		{"two variables in one file", &mixed, exit.Bug, "in one GRIB file"},
	} {
		dir := t.TempDir()
		err := product.WriteGRIB2(context.Background(), encoder(t), filepath.Join(dir, "x.grib2"), c.p, product.Options{})
		if exit.CodeOf(err) != c.code || err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got %v, want exit %d with %q", c.name, err, c.code, c.text)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left %v", c.name, left)
		}
	}
}

// Writing all members of the demo takes seconds.
func BenchmarkEnsembleGRIB2(b *testing.B) {
	g := gaussian()
	axes := ensemble.Axes{Variables: []string{"gh", "t", "u", "v", "vo"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)},
		Leads: []ensemble.Lead{0, ensemble.Lead(24 * time.Hour), ensemble.Lead(48 * time.Hour)}}
	f := ensemble.NewForecast(testInit, axes, []ensemble.Member{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, g)
	for i := range f.Values {
		f.Values[i] = float32(math.Sin(float64(i)))
	}
	enc := encoder(b)
	path := filepath.Join(b.TempDir(), "ens.grib2")
	for b.Loop() {
		if err := product.WriteEnsembleGRIB2(context.Background(), enc, path, f, product.Options{Packing: "grid_simple"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(300*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
