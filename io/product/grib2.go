package product

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/product/encode"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// WriteGRIB2 writes one statistic of one variable and lead as GRIB2, one message
// per level, with all members of a variable in one file. The product definition
// templates, for an instant and for an interval, are: members 4.1 and 4.11, mean
// and spread 4.2 and 4.12, probabilities 4.5 and 4.9, whole percentiles 4.6 and
// 4.10, other quantiles 4.86 and 4.87.
//
// A field with a Template, a message of edition 2 with one field, becomes a clone
// of it: centre, tables, grid, level and times stay; statistic and packing change.
// All other fields start from a sample of ecCodes, which exists for regular
// latitude-longitude and regular Gaussian grids.
//
// Unit: that of the parameter in the WMO tables, or of the template; probabilities in
// per cent.
// Missing: bitmap.
// Errors: as WriteNetCDF; exit 64 for a quantile, grid or variable that cannot be
// encoded in GRIB2 without a template.
// Source: WMO Manual on Codes (WMO-No. 306), FM 92 GRIB edition 2, code table 4.0.
func WriteGRIB2(ctx context.Context, enc Encoder, path string, p *Product, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	for _, f := range p.Fields[1:] {
		if g := p.Fields[0]; !g.sameFile(f) {
			return layoutError(path, fmt.Errorf("%s %s at %s and %s %s at %s in one GRIB file", g.Variable, g.Statistic(), g.Lead, f.Variable, f.Statistic(), f.Lead))
		}
	}
	if p.Locations != nil {
		return notRepresentable(path, fmt.Errorf("they are at stations, and GRIB2 has grids only"))
	}
	lay := gribLayout(p.Grid, o)
	g := &gribBuilder{lay: &lay, opt: o}
	for _, f := range slices.SortedFunc(slices.Values(p.Fields), compare) {
		stat, _ := statisticOf(f.Kind)
		f, err := f.inGRIBUnit()
		if err != nil {
			return notRepresentable(path, err)
		}
		keys, err := p.gribKeys(f, stat)
		if err != nil {
			return notRepresentable(path, err)
		}
		if f.Period == 0 && cmp.Or(f.Method, f.variable().Period) != "" {
			return notRepresentable(path, fmt.Errorf("the interval of %s is not stated", f.Variable))
		}
		if _, known := statisticalProcess[f.periodMethod()]; f.Period > 0 && !known {
			return notRepresentable(path, fmt.Errorf("the statistic %q of %s", f.Method, f.Variable))
		}
		if edition2(f.Template) {
			if f.Period > 0 && f.Method != "" { // the fields of the input may have another interval
				keys = append(keys, stepKeys(f.Lead, f.Period, f.periodMethod())...)
			}
			g.addClone(f, stat, keys)
			continue
		}
		v := f.variable()
		base, err := g.sampleBase(p.Init, f.gribTemplate(stat))
		if err == nil {
			err = checkGRIBCodes(v, f.Level)
		}
		if err != nil {
			return notRepresentable(path, err)
		}
		if f.Kind == Member {
			keys = append(keys, encode.LongKey("typeOfEnsembleForecast", typeOfMember(f.Member, p.Control)))
		}
		keys = append(append(keys, parameterKeys(v, f.Level)...), stepKeys(f.Lead, f.Period, f.periodMethod())...)
		g.addMessage(base, keys, f.gribValues())
	}
	return g.write(ctx, enc, path)
}

// sameFile reports whether two fields belong to one GRIB file: the levels of one
// statistic, and all members of a variable. It is an equivalence, so the files of a
// product partition its fields.
func (f Field) sameFile(o Field) bool {
	return f.Variable == o.Variable && f.Kind == o.Kind && f.Lead == o.Lead && f.Below == o.Below && f.Event == o.Event && f.Radius == o.Radius
}

// gribUnits gives the unit of parameters that is not that of ensemble.Variables.
//
// Source: FM 92 GRIB2, code table 4.2.
var gribUnits = map[string]string{"tcc": "%"}

// inGRIBUnit returns the field with values and limits in the unit of the GRIB parameter:
// that of the template, or that of the WMO tables. f.Values is copied before it is
// converted, since other formats write the same field.
//
// Errors: a template whose unit is not one of the variable.
func (f Field) inGRIBUnit() (Field, error) {
	v := f.variable()
	native := gribUnits[f.Variable]
	if edition2(f.Template) && f.TemplateUnit != "" {
		native = f.TemplateUnit
	}
	if native == "" || v.Unit == "" {
		return f, nil
	}
	c := unit.ToSI(native, v.Unit)
	if c.SI != v.Unit {
		return f, fmt.Errorf("the unit %q of the template is not one of %s", native, f.Variable)
	}
	if c.IsIdentity() {
		return f, nil
	}
	if f.Kind == Probability { // its values have no unit
		f.Event.Lower, f.Event.Upper = c.ToNative(f.Event.Lower), c.ToNative(f.Event.Upper)
		return f, nil
	}
	if f.Kind == Spread {
		c = c.Difference()
	}
	f.Values = slices.Clone(f.Values)
	for i, x := range f.Values {
		f.Values[i] = float32(c.ToNative(float64(x)))
	}
	return f, nil
}

// gribValues returns the values as GRIB2 stores them: probabilities in per cent. All
// centres do so.
func (f Field) gribValues() []float32 {
	if f.Kind != Probability {
		return f.Values
	}
	out := slices.Clone(f.Values)
	for i := range out {
		out[i] *= 100
	}
	return out
}

// typeOfMember returns code table 4.6: 1 unperturbed low-resolution control, 3
// positively perturbed. Member 0 is the control, unless the ensemble has none.
func typeOfMember(m ensemble.Member, control string) int64 {
	if m == ensemble.Control && control != ensemble.NoControl {
		return 1
	}
	return 3
}

// WriteEnsembleGRIB2 writes all members of one initialisation as GRIB2, one message
// per field (product definition template 4.1), by lead, member, variable and level.
// Member 0 is the control.
//
// Unit, Missing: as WriteGRIB2.
// Errors: those of the encoder; exit 64 for invalid Options, and for grids and
// variables without a sample in ecCodes.
func WriteEnsembleGRIB2(ctx context.Context, enc Encoder, path string, f *ensemble.Forecast, o Options) error {
	o, err := o.check()
	if err != nil {
		return err
	}
	lay := gribLayout(f.Grid, o)
	g := &gribBuilder{lay: &lay, opt: o}
	for t, lead := range f.Axes.Leads {
		for m, id := range f.Members {
			base, err := g.sampleBase(f.Init, 1)
			if err != nil {
				return notRepresentable(path, err)
			}
			for v, name := range f.Axes.Variables {
				q, ok := ensemble.VariableNamed(name)
				if !ok {
					return notRepresentable(path, fmt.Errorf("no variable %q in the vocabulary", name))
				}
				if q.Period != "" {
					return notRepresentable(path, fmt.Errorf("%s is the %s over an interval, which a forecast does not state", name, q.Period))
				}
				for l, level := range f.Axes.Levels {
					if err := checkGRIBCodes(q, level); err != nil {
						return notRepresentable(path, err)
					}
					keys := append(parameterKeys(q, level), stepKeys(lead, 0, "")...)
					keys = append(keys, encode.LongKey("typeOfEnsembleForecast", typeOfMember(id, ensemble.IncludeControl)), encode.LongKey("perturbationNumber", int64(id)),
						encode.LongKey("numberOfForecastsInEnsemble", int64(len(f.Members))),
						encode.LongKey("typeOfGeneratingProcess", ensembleRun))
					one, err := Field{Variable: name, Kind: Member, Values: f.Field(t, m, v, l)}.inGRIBUnit()
					if err != nil {
						return notRepresentable(path, err)
					}
					g.addMessage(base, keys, one.Values)
				}
			}
		}
	}
	return g.write(ctx, enc, path)
}

// notRepresentable reports fields that cannot be encoded in GRIB2 without a template. It
// is exit 64, because another format or input avoids it.
func notRepresentable(path string, err error) error {
	return &exit.Error{Code: exit.Usage, What: "these fields cannot be encoded in GRIB2", At: path, Why: err.Error(),
		Fix: "write NetCDF instead (`--format netcdf`), or give GRIB2 input, whose messages can be cloned", Err: err}
}

// edition2 reports whether a message is GRIB2. Octet 8 holds the edition. nil is not.
//
// Source: FM 92 GRIB2, section 0.
func edition2(message []byte) bool { return len(message) > 16 && message[7] == 2 }

// gribBuilder collects the messages of one file.
type gribBuilder struct {
	lay     *layout
	opt     Options
	file    encode.GRIB
	samples map[int64]int // product definition template → base
	payload
}

// addMessage adds one field. base is a position in file.Bases. Values are written in the
// scanning order of the message, NaN as the missing value of ecCodes' bitmap.
func (g *gribBuilder) addMessage(base int, keys []encode.Key, values []float32) {
	g.file.Messages = append(g.file.Messages, encode.Message{Base: base, Keys: keys, Packing: g.opt.Packing, Bits: cmp.Or(g.opt.Quantise, gribBits),
		Values: g.block(4*len(values), func(dst []byte) { g.lay.putScanOrder(dst, values) })})
}

// preservedKeys lists keys that a clone must take from its template although the
// product definition changes. ecCodes 2.28 rounds levels to whole hPa otherwise.
var preservedKeys = []string{
	"typeOfFirstFixedSurface", "scaleFactorOfFirstFixedSurface", "scaledValueOfFirstFixedSurface",
	"typeOfSecondFixedSurface", "scaleFactorOfSecondFixedSurface", "scaledValueOfSecondFixedSurface",
	"indicatorOfUnitOfTimeRange", "forecastTime",
	"yearOfEndOfOverallTimeInterval", "monthOfEndOfOverallTimeInterval", "dayOfEndOfOverallTimeInterval",
	"hourOfEndOfOverallTimeInterval", "minuteOfEndOfOverallTimeInterval", "secondOfEndOfOverallTimeInterval",
	"typeOfStatisticalProcessing", "typeOfTimeIncrement", "indicatorOfUnitForTimeRange", "lengthOfTimeRange",
	"indicatorOfUnitForTimeIncrement", "timeIncrement",
}

// addClone adds a field that is a clone of its template.
//
// The order of points is set again, because the grid of the product has one order
// while inputs may have several. The order of a projected grid cannot be set, so
// its template must have it.
//
// Source: FM 92 GRIB2, code tables 1.4 (type of data) and 4.0; ecCodes, concept "type"
// of the MARS namespace.
func (g *gribBuilder) addClone(f Field, stat statistic, keys []encode.Key) {
	b := encode.Base{Template: g.block(len(f.Template), func(dst []byte) { copy(dst, f.Template) }), Preserve: preservedKeys}
	grid := g.lay.grid
	if grid.Kind == ensemble.Projected {
		b.Required = append(b.Required, encode.LongKey("Nx", int64(grid.NX)), encode.LongKey("Ny", int64(grid.NY)),
			encode.LongKey("scanningMode", int64(grid.Source.ScanningMode)))
	} else {
		whole := grid.Parent() // for an area, the template has the parent grid
		b.Required = append(b.Required, encode.LongKey("Ni", int64(whole.NX)), encode.LongKey("Nj", int64(whole.NY)))
		if whole != grid {
			b.Keys = append(b.Keys, sizeKeys(grid)...)
		}
		b.Keys = append(b.Keys, g.orderKeys()...)
	}
	// ECMWF's local types distinguish statistics for readers that use dataType;
	// other centres have none. Setting the type changes the generating process, so
	// it precedes the other keys. All members have one type, including the control,
	// because cfgrib does not open a file whose members differ in it.
	marsType := encode.TextKey("type", stat.marsType)
	marsType.OnlyIf = &encode.Condition{Key: "centre", Text: "ecmf"}
	marsType.SkipUnknown = true
	// ecCodes 2.28 packs incorrectly if the input had a decimal scale factor.
	scale := encode.LongKey("decimalScaleFactor", 0)
	scale.SkipUnknown = true
	b.Keys = append(b.Keys, scale, marsType, encode.LongKey("productDefinitionTemplateNumber", f.gribTemplate(stat)))
	if f.Kind == Member {
		b.Preserve = append(slices.Clone(preservedKeys), "typeOfEnsembleForecast")
		b.Keys = append(b.Keys, encode.LongKey("typeOfProcessedData", bothTypes))
	}
	g.file.Bases = append(g.file.Bases, b)
	g.addMessage(len(g.file.Bases)-1, keys, f.gribValues())
}

// bothTypes is code table 1.4, entry 5 (control and perturbed forecasts), for all
// messages: cfgrib does not open a file whose members differ in this key.
const bothTypes = 5

// sampleBase returns the base made from a sample of ecCodes with grid and time of
// the product, one for each product definition template.
//
// Errors: a grid without a sample.
// Source: FM 92 GRIB2, templates 3.0 (latitude/longitude) and 3.40 (Gaussian); code
// tables 1.2 (significance of reference time), 1.3 (production status), 3.2 (shape of
// the Earth: 6 is a sphere of 6371229 m). 255 is "missing" in all of them.
func (g *gribBuilder) sampleBase(init ensemble.Init, pdt int64) (int, error) {
	if i, ok := g.samples[pdt]; ok {
		return i, nil
	}
	grid := g.lay.grid
	b := encode.Base{Sample: "regular_ll_pl_grib2"}
	switch grid.Kind {
	case ensemble.RegularLatLon:
	case ensemble.RegularGaussian:
		b.Sample = "regular_gg_pl_grib2"
	default:
		return 0, fmt.Errorf("a %s grid", grid.Kind)
	}
	t := init.UTC()
	b.Keys = []encode.Key{
		encode.LongKey("tablesVersion", 27),
		encode.LongKey("centre", 255),    // missing
		encode.LongKey("subCentre", 255), // missing
		encode.LongKey("significanceOfReferenceTime", 1),
		encode.LongKey("year", int64(t.Year())), encode.LongKey("month", int64(t.Month())), encode.LongKey("day", int64(t.Day())),
		encode.LongKey("hour", int64(t.Hour())), encode.LongKey("minute", int64(t.Minute())), encode.LongKey("second", int64(t.Second())),
		encode.LongKey("productionStatusOfProcessedData", 2), // research
		encode.LongKey("typeOfProcessedData", bothTypes),
		encode.LongKey("shapeOfTheEarth", 6),
	}
	b.Keys = append(b.Keys, sizeKeys(grid)...)
	b.Keys = append(b.Keys, encode.LongKey("iDirectionIncrementGiven", 1), encode.LongKey("iDirectionIncrement", microdegrees(step(g.lay.lon))))
	if grid.Kind == ensemble.RegularGaussian {
		// N: number of parallels between a pole and the equator.
		b.Keys = append(b.Keys, encode.LongKey("N", int64(gaussianNumber(grid))))
	} else {
		b.Keys = append(b.Keys, encode.LongKey("jDirectionIncrementGiven", 1),
			encode.LongKey("jDirectionIncrement", microdegrees(step(g.lay.lat))))
	}
	b.Keys = append(b.Keys, g.orderKeys()...)
	b.Keys = append(b.Keys, encode.LongKey("productDefinitionTemplateNumber", pdt),
		encode.LongKey("generatingProcessIdentifier", 255)) // missing
	if g.samples == nil {
		g.samples = map[int64]int{}
	}
	i := len(g.file.Bases)
	g.file.Bases = append(g.file.Bases, b)
	g.samples[pdt] = i
	return i, nil
}

// sizeKeys sets the number of points of a grid.
func sizeKeys(grid *ensemble.Grid) []encode.Key {
	return []encode.Key{encode.LongKey("Ni", int64(grid.NX)), encode.LongKey("Nj", int64(grid.NY)),
		encode.LongKey("numberOfDataPoints", int64(grid.Size()))}
}

// orderKeys sets the first and last point of a latitude-longitude grid and the
// scanning mode.
//
// Unit: microdegrees, longitudes from 0 to 360° (templates 3.0 and 3.40).
// Source: FM 92 GRIB2, flag table 3.4.
func (g *gribBuilder) orderKeys() []encode.Key {
	l, src := g.lay, g.lay.grid.Source
	flag := func(b bool) int64 {
		if b {
			return 1
		}
		return 0
	}
	north, south := l.lat[0], l.lat[len(l.lat)-1]
	east := len(l.lon) > 1 && l.lon[0] > l.lon[len(l.lon)-1]
	return []encode.Key{
		encode.LongKey("latitudeOfFirstGridPoint", microdegrees(north)),
		encode.LongKey("latitudeOfLastGridPoint", microdegrees(south)),
		encode.LongKey("longitudeOfFirstGridPoint", microdegrees(wrapLongitude(l.lon[0], 0))),
		encode.LongKey("longitudeOfLastGridPoint", microdegrees(wrapLongitude(l.lon[len(l.lon)-1], 0))),
		encode.LongKey("iScansNegatively", flag(east)),
		encode.LongKey("jScansPositively", flag(src.SouthFirst)),
		encode.LongKey("jPointsAreConsecutive", flag(src.ColumnMajor)),
		encode.LongKey("alternativeRowScanning", flag(src.ScanningMode >= 0 && src.ScanningMode&scanAlternateRows != 0)),
	}
}

// microdegrees converts degrees to the unit of GRIB2. Thirds of a degree are rounded, so
// readers recompute axes from first and last points.
func microdegrees(deg float64) int64 { return int64(math.Round(deg * 1e6)) }

// step returns the mean spacing of equidistant coordinates. It is 0 for fewer than two.
func step(v []float64) float64 {
	if len(v) < 2 {
		return 0
	}
	return math.Abs(v[len(v)-1]-v[0]) / float64(len(v)-1)
}

// gaussianNumber returns the number N of a Gaussian grid with 2N latitudes on the
// globe. For an area it follows from the spacing near the equator, which is
// 180°/(2N + 1/2).
//
// Source: ECMWF, Gaussian grids; the zeros of the Legendre polynomial P₂ₙ are spaced by
// π/(2N + 1/2) asymptotically.
func gaussianNumber(g *ensemble.Grid) int {
	if g.NY > 1 && math.Abs(g.Lat[0])+math.Abs(g.Lat[0]-g.Lat[1]) >= 90 && math.Abs(g.Lat[0]+g.Lat[g.NY-1]) < 1e-6 {
		return g.NY / 2
	}
	return int(math.Round((180/step(g.Lat) - 0.5) / 2))
}

// checkGRIBCodes returns an error if a variable or a level has no GRIB2 code.
func checkGRIBCodes(v ensemble.Variable, l ensemble.Level) error {
	if v.Discipline < 0 {
		return fmt.Errorf("variable %s has no known GRIB2 code", v.Name)
	}
	if l.Kind == ensemble.OtherLevel {
		return fmt.Errorf("the level of %s is of unknown kind", v.Name)
	}
	return nil
}

// parameterKeys sets parameter and level. Code table 4.5: 1 ground or water
// surface, 8 top of the atmosphere, 100 isobaric surface in Pa, 101 mean sea level,
// 103 height above ground in m, 106 depth below land in m.
//
// Source: FM 92 GRIB2, code tables 0.0, 4.1, 4.2 and 4.5.
func parameterKeys(v ensemble.Variable, l ensemble.Level) []encode.Key {
	keys := []encode.Key{
		encode.LongKey("discipline", int64(v.Discipline)),
		encode.LongKey("parameterCategory", int64(v.Category)),
		encode.LongKey("parameterNumber", int64(v.Number)),
	}
	surface := func(code int64) encode.Key { return encode.LongKey("typeOfFirstFixedSurface", code) }
	if l.IsLayer {
		code := map[ensemble.LevelKind]int64{ensemble.Pressure: 100, ensemble.HeightAboveSoil: 103, ensemble.DepthBelowLand: 106}[l.Kind]
		// ecCodes changes the first surface when the type of the second is set.
		keys = append(keys, surface(code), encode.LongKey("typeOfSecondFixedSurface", code))
		factor, value, _ := scaledNumber(l.End)
		return append(append(keys, levelKeys(l.Value)...), encode.LongKey("scaleFactorOfSecondFixedSurface", factor), encode.LongKey("scaledValueOfSecondFixedSurface", value))
	}
	switch l.Kind {
	case ensemble.Pressure:
		return append(append(keys, surface(100)), levelKeys(l.Value)...)
	case ensemble.HeightAboveSoil:
		return append(append(keys, surface(103)), levelKeys(l.Value)...)
	case ensemble.DepthBelowLand:
		return append(append(keys, surface(106)), levelKeys(l.Value)...)
	case ensemble.MeanSea:
		return append(append(keys, surface(101)), levelKeys(0)...)
	case ensemble.Surface:
		if wholeColumn[v.Name] { // from the surface to the top of the atmosphere
			return append(keys, surface(1), encode.LongKey("typeOfSecondFixedSurface", 8))
		}
	}
	return append(append(keys, surface(1)), levelKeys(0)...)
}

// wholeColumn lists variables of the whole atmosphere, whose level is the surface in
// ensemble.Variables.
var wholeColumn = map[string]bool{"tcw": true, "tcwv": true, "tcc": true}

// levelKeys sets the value of a level, to nine digits.
//
// Unit: that of the surface in code table 4.5, Pa or m.
func levelKeys(v float64) []encode.Key {
	factor, value, _ := scaledNumber(v)
	return []encode.Key{encode.LongKey("scaleFactorOfFirstFixedSurface", factor),
		encode.LongKey("scaledValueOfFirstFixedSurface", value)}
}

// scaledNumber returns a number as GRIB2 stores it: value / 10^factor, with a value of
// 32 bits. ok is false if it has more digits; the value is rounded then. The least
// factor is taken, so 850 hPa is 85000/10⁰.
//
// Source: FM 92 GRIB2, template 4.0: scale factor and scaled value of a fixed surface,
// octets 24 to 28.
func scaledNumber(v float64) (factor, value int64, ok bool) {
	for factor = range int64(10) {
		x := v * math.Pow10(int(factor))
		if math.Abs(x) > math.MaxInt32 {
			return max(factor-1, 0), value, false
		}
		value = int64(math.Round(x))
		if math.Abs(x-math.Round(x)) <= 1e-12*math.Abs(x) {
			return factor, value, true
		}
	}
	return factor, value, false
}

// statisticalProcess gives GRIB2 code table 4.10 for CF cell methods.
var statisticalProcess = map[string]int64{"mean": 0, "sum": 1, "maximum": 2, "minimum": 3, "difference": 4, "root_mean_square": 5, "standard_deviation": 6}

// stepKeys sets the forecast time: the lead, or the interval of length period that ends
// there, with its statistic. The unit is hours, or minutes if necessary. For an interval
// ecCodes sets the forecast time to its begin and the end of the overall time interval
// (template 4.8, octets 35 to 41) from stepRange.
//
// Source: FM 92 GRIB2, code tables 4.4 and 4.10.
func stepKeys(lead ensemble.Lead, period time.Duration, method string) []encode.Key {
	unit, name := time.Hour, "h"
	if time.Duration(lead)%time.Hour != 0 || period%time.Hour != 0 {
		unit, name = time.Minute, "m"
	}
	end := int64(time.Duration(lead) / unit)
	if period == 0 {
		code := map[string]int64{"m": 0, "h": 1}[name]
		return []encode.Key{encode.LongKey("indicatorOfUnitOfTimeRange", code), encode.LongKey("forecastTime", end)}
	}
	return []encode.Key{
		encode.LongKey("typeOfStatisticalProcessing", statisticalProcess[method]),
		encode.TextKey("stepUnits", name),
		encode.TextKey("stepRange", fmt.Sprintf("%d-%d", end-int64(period/unit), end)),
	}
}

// write creates the file from what the child encodes.
//
// Memory: the file.
// Errors: those of encodeError.
func (g *gribBuilder) write(ctx context.Context, enc Encoder, path string) error {
	return g.payload.write(ctx, enc, path, encode.KindGRIB, g.file)
}
