package product_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
)

// Events of the tests: one for each relation, and two for one.
var (
	freezing = ensemble.Event{Relation: ensemble.Below, Upper: 273.15}
	warm     = ensemble.Event{Relation: ensemble.Above, Lower: 288.15}
	hot      = ensemble.Event{Relation: ensemble.Above, Lower: 303.15}
	chilly   = ensemble.Event{Relation: ensemble.Between, Lower: 273.15, Upper: 278.15}
)

// probabilities is a field from 0 to 1 with both marks: 0.9 at 90 E 45 N, 0.1 at 10 W 30 S.
func probabilities(n int, base float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(base + 0.1*float64(i)/float64(n))
	}
	v[atNE], v[atSW] = 0.9, 0.1
	return v
}

// calibrated has quantiles, probabilities and members of 2t, and quantiles of t on two
// levels.
func calibrated(g *ensemble.Grid) *product.Product {
	p := testProduct(g)
	p.Fields = nil
	t2m := ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}
	nan := float32(math.NaN())
	for i, q := range []float64{0.1, 0.5, 0.125} {
		for _, f := range []product.Field{
			{Variable: "2t", Level: t2m, Values: marked(g.Size(), 270+float64(i))},
			{Variable: "t", Level: ensemble.PressureLevel(850), Values: marked(g.Size(), 250+float64(i))},
			{Variable: "t", Level: ensemble.PressureLevel(500), Values: marked(g.Size(), 240+float64(i))},
		} {
			f.Lead, f.Kind, f.Below, f.Distribution = testLead, product.Quantile, q, "normal"
			f.Values[missingAt] = nan
			p.Fields = append(p.Fields, f)
		}
	}
	for i, e := range []ensemble.Event{freezing, warm, hot, chilly} {
		v := probabilities(g.Size(), 0.2*float64(i))
		v[missingAt] = nan
		p.Fields = append(p.Fields, product.Field{Variable: "2t", Level: t2m, Lead: testLead, Kind: product.Probability, Event: e, Values: v})
	}
	for m := range 3 {
		v := marked(g.Size(), 260+float64(m))
		v[missingAt] = nan
		p.Fields = append(p.Fields, product.Field{Variable: "2t", Level: t2m, Lead: testLead, Kind: product.Member, Member: ensemble.Member(m), Values: v})
	}
	return p
}

// key returns the key of a field after reading it.
func key(p *product.Product, f product.Field) ensemble.Key {
	k := ensemble.Key{Variable: f.Variable, Level: f.Level, Member: ensemble.NoMember, Init: p.Init, Lead: f.Lead}
	switch f.Kind {
	case product.Mean:
		k.Product = ensemble.EnsembleMean
	case product.Spread:
		k.Product = ensemble.Spread
	case product.Quantile:
		k.Product, k.QuantileProbability = ensemble.Quantile, f.Below
	case product.Probability:
		k.Product, k.Event = ensemble.Probability, f.Event
	case product.Member:
		k.Member = f.Member
	}
	return k
}

// tolerance is the largest error of the packing; 0 without packing.
func tolerance(f product.Field, quantum float64) float64 {
	if f.Kind == product.Probability {
		return quantum / 50
	}
	return quantum
}

func unitOf(f product.Field) string {
	if f.Kind == product.Probability {
		return "1"
	}
	v, _ := ensemble.VariableNamed(f.Variable)
	return v.Unit
}

// Our own reader identifies the product of each field, and only members are
// members.
func TestStatisticsReadBack(t *testing.T) {
	for _, o := range []product.Options{{}, {Profile: product.CDOProfile, Longitude: product.From180}, {Quantise: 12}} {
		p := calibrated(globe(orders[1].src))
		p.Fields = append(p.Fields, testProduct(p.Grid).Fields...)
		got := readBack(t, writeNetCDF(t, p, o))
		if len(got) != len(p.Fields) {
			t.Errorf("%+v: %d fields, want %d", o, len(got), len(p.Fields))
		}
		packed := 0.0
		if o.Quantise > 0 { // half a step over the range of a variable's levels
			packed = 0.5 * 100 / (math.Exp2(float64(o.Quantise)) - 2)
		}
		for _, f := range p.Fields {
			checkField(t, "NetCDF", got, key(p, f), unitOf(f), p.Grid, f.Values, tolerance(f, packed)+1e-6)
		}
	}
}

// writeStatistic writes the file of one statistic as GRIB2.
func writeStatistic(t *testing.T, p *product.Product, f product.Field, o product.Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), product.GRIB2Name(p.Init, f))
	q := p.Select(func(g product.Field) bool { return product.GRIB2Name(p.Init, g) == product.GRIB2Name(p.Init, f) })
	if err := product.WriteGRIB2(context.Background(), encoder(t), path, q, o); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStatisticsGRIB2ReadBack(t *testing.T) {
	for _, o := range []product.Options{{}, {Quantise: 12, Longitude: product.From180}} {
		p := calibrated(globe(orders[1].src))
		quantum := quantum
		if o.Quantise > 0 {
			quantum = (markSW + 1) / (math.Exp2(float64(o.Quantise)) - 1)
		}
		read := map[string]map[ensemble.Key]*ensemble.Field{}
		for _, f := range p.Fields {
			name := product.GRIB2Name(p.Init, f)
			if read[name] == nil {
				read[name] = readBack(t, writeStatistic(t, p, f, o))
			}
			checkField(t, name, read[name], key(p, f), unitOf(f), p.Grid, f.Values, tolerance(f, quantum))
		}
		if len(read) != 3+3+4+1 {
			t.Errorf("%d files, want one a statistic and variable", len(read))
		}
	}
}

// Keys of each template in grib_ls, at an instant and over an interval.
func TestStatisticsGRIB2Keys(t *testing.T) {
	p := calibrated(globe(ensemble.SourceOrder{}))
	for _, f := range []product.Field{
		{Kind: product.Quantile, Below: 0.9}, {Kind: product.Quantile, Below: 0.995}, {Kind: product.Member, Member: 0},
		{Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Above, Lower: 0.5}},
	} {
		f.Variable, f.Lead, f.Values, f.Period = "tp", testLead, probabilities(p.Grid.Size(), 0), 6*time.Hour
		p.Fields = append(p.Fields, f)
	}
	p.Fields = append(p.Fields, product.Field{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Lead: testLead,
		Kind: product.Quantile, Below: 0.25, Values: marked(p.Grid.Size(), 260), Period: 24 * time.Hour, Method: "minimum"})
	common := []string{"shortName", "level", "stepRange", "typeOfGeneratingProcess", "productDefinitionTemplateNumber"}
	limits := []string{"probabilityType", "scaleFactorOfLowerLimit", "scaledValueOfLowerLimit", "scaleFactorOfUpperLimit", "scaledValueOfUpperLimit"}
	member := []string{"perturbationNumber", "typeOfEnsembleForecast", "numberOfForecastsInEnsemble"}
	quantile := []string{"quantileValue", "totalNumberOfQuantiles"}
	for _, c := range []struct {
		variable  string
		statistic string
		keys      []string
		want      string
	}{
		{"2t", "quantile 0.1", []string{"percentileValue"}, "2t 2 48 13 6 10"},
		{"2t", "quantile 0.125", quantile, "2t 2 48 13 86 1 8"},
		{"2t", "quantile 0.25", []string{"percentileValue", "typeOfStatisticalProcessing"}, "2t 2 24-48 13 10 25 3"},
		{"2t", "probability below 273.15", limits, "2t 2 48 13 5 0 2 27315 MISSING MISSING"},
		{"2t", "probability above 288.15", limits, "2t 2 48 13 5 3 2 28815 MISSING MISSING"},
		{"2t", "probability between 273.15 and 278.15", limits, "2t 2 48 13 5 2 2 27315 2 27815"},
		{"2t", "member 0", member, "2t 2 48 13 1 0 1 5"},
		{"tp", "quantile 0.9", []string{"percentileValue"}, "tp 0 42-48 13 10 90"},
		{"tp", "quantile 0.995", quantile, "tp 0 42-48 13 87 199 200"},
		{"tp", "probability above 0.5", limits, "tp 0 42-48 13 9 3 1 5 MISSING MISSING"},
		{"tp", "member 0", member, "tp 0 42-48 13 11 0 1 5"},
	} {
		for _, f := range p.Fields {
			if f.Variable != c.variable || f.Statistic() != c.statistic {
				continue
			}
			got := gribKeys(t, writeStatistic(t, p, f, product.Options{}), append(common, c.keys...)...)[0]
			if strings.TrimSpace(got) != c.want {
				t.Errorf("%s %s:\n got %s\nwant %s\n     %v %v", c.variable, c.statistic, got, c.want, common, c.keys)
			}
		}
	}
}

// A quantile that is not a ratio of 16-bit numbers cannot be encoded in GRIB2.
func TestQuantileWithoutRatio(t *testing.T) {
	p := calibrated(globe(ensemble.SourceOrder{}))
	p.Fields = p.Fields[:1]
	p.Fields[0].Below = math.Sqrt2 / 10
	err := product.WriteGRIB2(context.Background(), encoder(t), filepath.Join(t.TempDir(), "q.grib2"), p, product.Options{})
	if exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "not a ratio") {
		t.Errorf("got %v, want exit 64", err)
	}
}

// Quantiles, thresholds and members in xarray, all in one file without a warning.
func TestStatisticsInXarray(t *testing.T) {
	needPython(t)
	v := xarrayView(t, writeNetCDF(t, calibrated(globe(orders[1].src)), product.Options{}))
	for name, want := range map[string]struct {
		dims, unit, longName string
		std                  any
		ne                   []float64
	}{
		"t2m_quantile":                          {"time quantile latitude longitude", "K", "2 metre temperature, post-processed quantiles", "air_temperature", []float64{270, 272, 271}},
		"t_quantile":                            {"time quantile pressure latitude longitude", "K", "temperature, post-processed quantiles", "air_temperature", []float64{250, 240, 252, 242, 251, 241}},
		"t2m":                                   {"time realization latitude longitude", "K", "2 metre temperature, post-processed members", "air_temperature", []float64{260, 261, 262}},
		"probability_of_t2m_above_threshold":    {"time threshold latitude longitude", "1", "probability_of_air_temperature_above_threshold", nil, nil},
		"probability_of_t2m_below_threshold":    {"time threshold_2 latitude longitude", "1", "probability_of_air_temperature_below_threshold", nil, nil},
		"probability_of_t2m_between_thresholds": {"time threshold_3 latitude longitude", "1", "probability_of_air_temperature_between_thresholds", nil, nil},
	} {
		f, ok := v.Vars[name]
		if got := strings.Join(f.Dims, " "); !ok || got != want.dims {
			t.Errorf("%s over %s, want %s", name, got, want.dims)
			continue
		}
		if a := f.Attrs; a["units"] != want.unit || a["long_name"] != want.longName || a["standard_name"] != want.std || a["ensemble_members_used"] != 5.0 || a["cell_methods"] != nil {
			t.Errorf("%s: %v", name, a)
		}
		for k := range f.NE {
			ne, sw := 0.9, 0.1
			if want.ne != nil {
				ne, sw = wantMarks(want.ne[k])
			}
			if !near(f.NE[k], ne) || !near(f.SW[k], sw) {
				t.Errorf("%s: %v at 90 E 45 N, %v at 10 W 30 S; want %g and %g at position %d", name, f.NE, f.SW, ne, sw, k)
			}
		}
	}
	if a := v.Vars["t_quantile"].Attrs; a["distribution"] != "normal" {
		t.Errorf("t_quantile: %v", a)
	}
	if len(v.Vars) != 8 { // crs and the bounds of a threshold too
		t.Errorf("%d variables", len(v.Vars))
	}
	for name, want := range map[string][]float64{"quantile": {0.1, 0.125, 0.5}, "realization": {0, 1, 2}, "threshold": {288.15, 303.15}, "threshold_2": {273.15}, "threshold_3": {278.15}} {
		if !reflect.DeepEqual(v.Coords[name], want) {
			t.Errorf("%s %v, want %v", name, v.Coords[name], want)
		}
	}
	var s stored
	ask(t, "storage", writeNetCDF(t, calibrated(globe(orders[1].src)), product.Options{Quantise: 12}), &s)
	if f := s.Vars["threshold_3"]; f.Attrs["bounds"] != "threshold_3_bnds" || f.Attrs["standard_name"] != "air_temperature" || f.Attrs["units"] != "K" || f.Attrs["spp__relative_to_threshold"] != "between_thresholds" {
		t.Errorf("threshold_3: %+v", f)
	}
	if b := s.Vars["threshold_3_bnds"]; b.First != 273.15 || b.Last != 278.15 {
		t.Errorf("threshold_3_bnds from %g to %g", b.First, b.Last)
	}
	if f := s.Vars["percentile"]; f.Attrs["units"] != "%" || f.First != 10 || f.Last != 50 {
		t.Errorf("percentile: %+v", f)
	}
	if f := s.Vars["t_quantile"]; f.Type != "int16" || !f.Fill || f.Level != 4 {
		t.Errorf("packed t_quantile: %+v", f)
	}
}

// CDO, ncks and GDAL open CDOProfile, one array per statistic, without a warning,
// and find the marks.
func TestStatisticsInCDO(t *testing.T) {
	for _, order := range orders[:2] {
		path := writeNetCDF(t, calibrated(globe(order.src)), product.Options{Profile: product.CDOProfile, Longitude: product.From180})
		cdoMarks(t, order.name, path, "t_quantile_0p125", "500", 242, 1e-3)
		run(t, tool(t, "ncks"), "-m", path)
		for name, want := range map[string]float64{"t2m_member_2": 262 + float64(atNE)/468 + markNE, "probability_of_t2m_between_273p15to278p15": 0.9} {
			for _, out := range []string{
				run(t, tool(t, "cdo"), "-s", "output", "-remapnn,lon=90/lat=45", "-selname,"+name, path),
				run(t, tool(t, "gdallocationinfo"), "-valonly", "-b", "1", "-geoloc", "NETCDF:"+path+":"+name, "90", "45"),
			} {
				if got, err := strconv.ParseFloat(strings.TrimSpace(out), 64); err != nil || math.Abs(got-want) > 1e-3 {
					t.Errorf("%s: %s is %q at 90 E 45 N, want %g", order.name, name, out, want)
				}
			}
		}
	}
}

// CDO opens XarrayProfile without a warning too, and takes quantiles, thresholds and members of one level for levels. iris and
// others find the lead, because variables list it.
func TestStatisticsOfOneLevelInCDO(t *testing.T) {
	for name, part := range map[string]struct {
		kind  product.Kind
		level string
		want  float64
	}{
		"t2m_quantile":                       {product.Quantile, "0.5", 271},
		"t2m":                                {product.Member, "2", 262},
		"probability_of_t2m_below_threshold": {product.Probability, "273.15", 0},
	} {
		p := calibrated(globe(orders[0].src)).Select(func(f product.Field) bool {
			return f.Variable == "2t" && f.Kind == part.kind && (f.Kind != product.Probability || f.Event == freezing)
		})
		path := writeNetCDF(t, p, product.Options{})
		if part.kind != product.Probability {
			cdoMarks(t, name, path, name, part.level, part.want, 1e-3)
		} else if out := run(t, tool(t, "cdo"), "-s", "output", "-remapnn,lon=90/lat=45", "-sellevel,"+part.level, "-selname,"+name, path); strings.TrimSpace(out) != "0.9" {
			t.Errorf("%s at 90 E 45 N is %s, want 0.9", name, out)
		}
		var s stored
		ask(t, "storage", path, &s)
		listed := strings.Fields(fmt.Sprint(s.Vars[name].Attrs["coordinates"]))
		for _, c := range []string{"forecast_period", "forecast_reference_time", "height_2m"} {
			if !slices.Contains(listed, c) {
				t.Errorf("%s does not list %s: %q", name, c, listed)
			}
		}
	}
}

// cfgrib opens each GRIB file without a warning; members along number.
func TestStatisticsInCfgrib(t *testing.T) {
	needPython(t)
	p := calibrated(globe(orders[1].src))
	for _, f := range p.Fields {
		if f.Variable != "2t" || f.Kind == product.Member && f.Member != 0 {
			continue
		}
		v := xarrayView(t, writeStatistic(t, p, f, product.Options{}))
		name := "t2m"
		if f.Event == freezing {
			name = "t2l273" // ecCodes has a name for this event
		}
		got, ok := v.Vars[name]
		if !ok || len(v.Vars) != 1 || v.Scalars["step"] != 48*3600 {
			t.Errorf("%s: %v", f.Statistic(), v)
			continue
		}
		switch f.Kind {
		case product.Probability:
			if math.Abs(got.NE[0]-90) > 100*tolerance(f, quantum) || math.Abs(got.SW[0]-10) > 100*tolerance(f, quantum) {
				t.Errorf("%s: %v and %v per cent", f.Statistic(), got.NE, got.SW)
			}
		case product.Member:
			checkMarks(t, f.Statistic(), got.NE, got.SW, 260, 261, 262)
			if !reflect.DeepEqual(v.Coords["number"], []float64{0, 1, 2}) {
				t.Errorf("members %v", v.Coords["number"])
			}
		default:
			if len(got.NE) != 1 {
				t.Errorf("%s: %v", f.Statistic(), got.NE)
			}
		}
	}
}

// If the number of members varies by point, an additional variable holds it.
func TestMembersByPoint(t *testing.T) {
	needPython(t)
	p := testProduct(globe(orders[1].src))
	p = p.Select(func(f product.Field) bool { return f.Variable == "2t" })
	p.Fields[0].Counts = make([]int32, p.Grid.Size())
	for i := range p.Fields[0].Counts {
		p.Fields[0].Counts[i] = 5
	}
	p.Fields[0].Counts[atNE], p.Fields[0].Counts[atSW] = 3, 4
	v := xarrayView(t, writeNetCDF(t, p, product.Options{}))
	if a := v.Vars["t2m_mean"].Attrs["ancillary_variables"]; a != "t2m_mean_n_members" {
		t.Errorf("ancillary variables %v", a)
	}
	n := v.Vars["t2m_mean_n_members"]
	if len(n.NE) != 1 || n.NE[0] != 3 || n.SW[0] != 4 || n.Attrs["units"] != "1" {
		t.Errorf("counts %v and %v, %v", n.NE, n.SW, n.Attrs)
	}
	if _, ok := v.Vars["t2m_spread_n_members"]; ok {
		t.Error("counts of a field that has none")
	}
	readBack(t, writeNetCDF(t, p, product.Options{}))
}

// The points of an area keep their coordinates, in NetCDF and in a clone of a
// global message.
func TestAreas(t *testing.T) {
	needPython(t)
	whole := globe(orders[1].src)
	p := testProduct(whole)
	template := firstMessage(t, writeGRIB2(t, p, "2t", product.Mean, product.Options{}))
	for _, area := range []string{"50/80/40/100", "-20/-30/-40/20", "60/170/30/-170", "60/-180/30/180"} {
		a, err := ensemble.ParseArea(area)
		if err != nil {
			t.Fatal(err)
		}
		g, places, err := whole.Crop(a)
		if err != nil {
			t.Fatal(err)
		}
		q := *p
		q.Grid, q.Fields = g, nil
		for _, f := range p.Fields {
			if f.Variable == "2t" && f.Kind == product.Mean {
				f.Values, f.Template = ensemble.Take(f.Values, places), template
				q.Fields = append(q.Fields, f)
			}
		}
		checkReadBack(t, area, writeNetCDF(t, &q, product.Options{}), &q, 0)
		for _, f := range [][]byte{template, nil} {
			q.Fields[0].Template = f
			path := writeGRIB2(t, &q, "2t", product.Mean, product.Options{})
			checkReadBack(t, area, path, &q, quantum)
			if v := xarrayView(t, path).Vars["t2m"]; len(v.Dims) != 2 {
				t.Errorf("%s: %v", area, v.Dims)
			}
		}
	}
}

// Clones of messages of a real ensemble, with ECMWF's local section, keep their
// identity and become each statistic; all members have one type.
func TestStatisticsOfClones(t *testing.T) {
	path := filepath.Join(testdata.Dir(t, "formats"), "grib2", "ens_z500_51_members_ccsds.grib2")
	ctx := context.Background()
	in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: encoder(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	e := in.Catalogue().Entries[0]
	p := testProduct(e.Grid)
	p.Init, p.Fields = e.Init, nil
	values := probabilities(e.Grid.Size(), 0.2)
	add := func(e ensemble.Entry, f product.Field) {
		raw, err := in.Message(e)
		if err != nil {
			t.Fatal(err)
		}
		f.Variable, f.Unit, f.Level, f.Lead, f.Values, f.Template = e.Variable, e.Unit, e.Level, e.Lead, values, raw
		p.Fields = append(p.Fields, f)
	}
	add(e, product.Field{Kind: product.Quantile, Below: 0.9})
	add(e, product.Field{Kind: product.Quantile, Below: 0.125})
	add(e, product.Field{Kind: product.Probability, Event: ensemble.Event{Relation: ensemble.Above, Lower: 55000}})
	for _, e := range in.Catalogue().Entries[:3] {
		add(e, product.Field{Kind: product.Member, Member: e.Member})
	}
	for _, f := range p.Fields {
		path := writeStatistic(t, p, f, product.Options{})
		checkField(t, f.Statistic(), readBack(t, path), key(p, f), unitOf(f), e.Grid, f.Values, 2e-5)
		got := strings.Join(gribKeys(t, path, "centre", "shortName", "level", "dataDate", "stepRange", "dataType", "productDefinitionTemplateNumber"), ",")
		want := map[product.Kind]string{product.Quantile: "pb", product.Probability: "ep", product.Member: "pf"}[f.Kind]
		if !strings.Contains(got, " "+want+" ") || !strings.HasPrefix(got, "ecmf z 500 ") {
			t.Errorf("%s: %s, want type %s", f.Statistic(), got, want)
		}
		if v := xarrayView(t, path); len(v.Vars) != 1 {
			t.Errorf("%s in cfgrib: %v", f.Statistic(), v.Vars)
		}
	}
}

// Products at stations are time series: xarray opens them without a warning, and
// CSV has a line for each value.
func TestStations(t *testing.T) {
	needPython(t)
	places := []ensemble.Station{{ID: "10488", Name: "Dresden", Lat: 51.13, Lon: 13.75, Altitude: 230}, {ID: "X1", Lat: -30, Lon: -10, Altitude: math.NaN()}}
	p := testProduct(globe(ensemble.SourceOrder{}))
	p.Grid, p.Locations, p.Fields = ensemble.StationGrid(places), places, nil
	for i, f := range []product.Field{
		{Variable: "t", Level: ensemble.PressureLevel(850), Kind: product.Quantile, Below: 0.1},
		{Variable: "t", Level: ensemble.PressureLevel(850), Kind: product.Quantile, Below: 0.9},
		{Variable: "t", Level: ensemble.PressureLevel(500), Kind: product.Mean},
		{Variable: "2t", Level: ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: 2}, Kind: product.Probability, Event: warm},
	} {
		f.Lead, f.Values = testLead, []float32{float32(i) / 8, float32(i+1) / 8}
		p.Fields = append(p.Fields, f)
	}
	p.Fields[2].Values[1] = float32(math.NaN())
	path := writeNetCDF(t, p, product.Options{})
	v := xarrayView(t, path)
	for name, dims := range map[string]string{"t_850hPa_quantile": "quantile station time", "t_500hPa_mean": "station time", "probability_of_t2m_above_threshold": "threshold station time"} {
		f := v.Vars[name]
		if got := strings.Join(f.Dims, " "); got != dims {
			t.Errorf("%s over %s, want %s", name, got, dims)
		}
		for _, c := range []string{"latitude", "longitude", "altitude", "station_id", "station_name", "time"} {
			if !slices.Contains(f.Coords, c) {
				t.Errorf("%s has no coordinate %s", name, c)
			}
		}
	}
	if v.Attrs["featureType"] != "timeSeries" || v.Scalars["pressure_850hPa"] != 850 {
		t.Errorf("%v, %v", v.Attrs["featureType"], v.Scalars)
	}
	if f := v.Vars["t_850hPa_quantile"]; f.Sum != 0.5 || f.Corner != 0 {
		t.Errorf("values %+v", f)
	}
	run(t, tool(t, "ncks"), "-m", path)
	got := readBack(t, path)
	for _, f := range p.Fields {
		checkField(t, "stations", got, key(p, f), unitOf(f), p.Grid, f.Values, 0)
	}
	table := filepath.Join(t.TempDir(), "s.csv")
	if err := product.WriteCSV(table, p); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"station_id,station_name,latitude,longitude,altitude_m,init,lead_h,valid,variable,level,statistic,value,unit,members_used",
		"10488,Dresden,51.13,13.75,230,2026-01-01T00:00:00Z,48,2026-01-03T00:00:00Z,t,850hPa,quantile 0.9,0.125,K,5",
		"X1,,-30,-10,,2026-01-01T00:00:00Z,48,2026-01-03T00:00:00Z,t,500hPa,mean,,K,5",
		"X1,,-30,-10,,2026-01-01T00:00:00Z,48,2026-01-03T00:00:00Z,2t,2m,probability above 288.15,0.5,1,5",
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if err := product.WriteGRIB2(context.Background(), encoder(t), filepath.Join(t.TempDir(), "x.grib2"), p.Select(func(f product.Field) bool { return f.Kind == product.Mean }), product.Options{}); exit.CodeOf(err) != exit.Usage {
		t.Errorf("stations in GRIB2: %v", err)
	}
}
