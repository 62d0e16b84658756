package cf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// rangeForm is one way to write a valid range: its attribute type, "" for that of
// the variable, and whether it has the unit of the values.
type rangeForm struct {
	kind   string
	values bool
	text   bool
}

// Valid ranges and missing values of every type, packed and unpacked, signed and
// unsigned, with positive and negative scales, mask exactly what the definition of
// NUG says.
func TestPackingsOfAllTypes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	cases := 0
	for kind, stored := range storedTypes {
		if stored.float || stored.bits == 64 {
			continue // floats have no packing; float64 does not hold all 64 bits
		}
		for _, other := range []bool{false, true} { // _Unsigned contradicts the type
			unsigned := stored.unsigned != other
			codes := math.Ldexp(1, stored.bits)
			low, high := 0.0, codes-1
			if !unsigned {
				low, high = -codes/2, codes/2-1
			}
			for _, scale := range []float64{0.01, -0.01, 0.5} {
				for _, form := range []rangeForm{{"", false, false}, {"double", true, false}, {"float", true, false}, {"", true, true}} {
					cases++
					v := &Var{Name: "x", Type: kind, Attrs: map[string]Attr{"scale_factor": {Numbers: Floats{scale}, Type: "double"}, "add_offset": {Numbers: Floats{280}, Type: "double"}}}
					if other {
						v.Attrs["_Unsigned"] = Attr{Text: fmt.Sprint(unsigned)}
					}
					// The bounds lie between stored numbers, so that rounding does not matter, or
					// on them, for stored numbers.
					first, last := math.Trunc(low+0.1*codes), math.Trunc(high-0.2*codes)
					fill := math.Trunc(low + 0.5*codes)
					v.Attrs["_FillValue"] = Attr{Numbers: Floats{asStored(fill, stored, unsigned)}, Type: kind}
					switch {
					case !form.values:
						v.Attrs["valid_range"] = Attr{Numbers: Floats{asStored(first, stored, unsigned), asStored(last, stored, unsigned)}, Type: kind}
					default:
						a, b := scale*(first-0.5)+280, scale*(last+0.5)+280
						v.Attrs["valid_range"] = Attr{Numbers: Floats{min(a, b), max(a, b)}, Type: form.kind}
						if form.text {
							v.Attrs["valid_range"] = Attr{Text: fmt.Sprintf("%v, %v", min(a, b), max(a, b))}
						}
					}
					p := PackingOf(v)
					if p.Err != nil || (len(p.Warnings) > 0) != form.text {
						t.Errorf("%s, unsigned %v, scale %v, %+v: %v, warnings %q", kind, unsigned, scale, form, p.Err, p.Warnings)
						continue
					}
					numbers := []float64{low, high, first, last, first - 1, last + 1, fill, 0}
					for range 100 {
						numbers = append(numbers, low+math.Trunc(rng.Float64()*codes))
					}
					for _, x := range numbers {
						want := scale*x + 280
						if x < first || x > last || x == fill {
							want = math.NaN()
						}
						got := []float64{asStored(x, stored, unsigned)}
						if err := p.Unpack(got); err != nil || got[0] != want && (got[0] == got[0] || want == want) {
							t.Errorf("%s, unsigned %v, scale %v, %+v: %v becomes %v, want %v, %v", kind, unsigned, scale, form, x, got[0], want, err)
							break
						}
					}
				}
			}
		}
	}
	if cases != 6*2*3*4 {
		t.Errorf("%d cases", cases)
	}
}

// asStored returns a number as its type stores it: unsigned numbers of signed types
// wrap, and signed numbers of unsigned types.
func asStored(x float64, kind storedType, unsigned bool) float64 {
	codes := math.Ldexp(1, kind.bits)
	if unsigned && !kind.unsigned && x >= codes/2 {
		return x - codes
	}
	if !unsigned && kind.unsigned && x < 0 {
		return x + codes
	}
	return x
}

// Marks of missing values of any type mask the numbers that they mean, or a warning
// names them.
func TestMissingValuesOfAllTypes(t *testing.T) {
	for _, c := range []struct {
		kind, name string
		attr       Attr
		packed     bool
		stored     float64 // is missing, unless NaN
		warning    string
	}{
		{"float", "missing_value", Attr{Numbers: Floats{-9999.9}, Type: "double"}, false, float64(float32(-9999.9)), ""},
		{"float", "_FillValue", Attr{Numbers: Floats{1e20}, Type: "float"}, false, float64(float32(1e20)), ""},
		{"float", "missing_value", Attr{Numbers: Floats{-32767}, Type: "short"}, false, -32767, ""},
		{"double", "missing_value", Attr{Numbers: Floats{float64(float32(-9999.9))}, Type: "float"}, false, float64(float32(-9999.9)), ""},
		{"short", "missing_value", Attr{Numbers: Floats{-999}, Type: "double"}, false, -999, ""},
		{"short", "missing_value", Attr{Numbers: Floats{-999}, Type: "int"}, true, -999, ""},
		{"short", "missing_value", Attr{Numbers: Floats{-99.9}, Type: "double"}, true, -9990, "missing_value is -99.9"},
		{"short", "missing_value", Attr{Numbers: Floats{-9999.9}, Type: "double"}, false, math.NaN(), "cannot hold"},
		{"short", "missing_value", Attr{Text: "-999.f"}, false, -999, "is the text"},
		{"short", "missing_value", Attr{Text: "-999, -998"}, false, -998, "is the text"},
		{"int", "missing_value", Attr{Text: "NaN"}, false, math.NaN(), "is the text"},
		{"int", "missing_value", Attr{Text: "missing"}, false, math.NaN(), "not a number"},
		{"ubyte", "_FillValue", Attr{Numbers: Floats{255}, Type: "ubyte"}, true, 255, ""},
		{"byte", "missing_value", Attr{Numbers: Floats{300}, Type: "short"}, false, math.NaN(), "cannot hold"},
		{"half", "missing_value", Attr{Numbers: Floats{-999}, Type: "double"}, false, -999, ""},
	} {
		v := &Var{Name: "x", Type: c.kind, Attrs: map[string]Attr{c.name: c.attr}}
		if c.packed {
			v.Attrs["scale_factor"] = Attr{Numbers: Floats{0.01}, Type: "double"}
		}
		p := PackingOf(v)
		if warnings := strings.Join(p.Warnings, "\n"); p.Err != nil || !strings.Contains(warnings, c.warning) || c.warning == "" && warnings != "" {
			t.Errorf("%s %s %+v: warnings %q, want %q, %v", c.kind, c.name, c.attr, warnings, c.warning, p.Err)
		}
		x := []float64{c.stored}
		if err := p.Unpack(x); err != nil || x[0] == x[0] {
			t.Errorf("%s %s %+v: %v becomes %v, %v", c.kind, c.name, c.attr, c.stored, x[0], err)
		}
	}
	for _, attrs := range []map[string]Attr{
		{"valid_range": {Numbers: Floats{1}, Type: "float"}}, {"valid_min": {Numbers: Floats{1, 2}, Type: "float"}}, {"valid_range": {Numbers: Floats{5, 2}, Type: "float"}},
		{"scale_factor": {Text: "no"}}, {"add_offset": {Numbers: Floats{1, 2}, Type: "float"}}, {"valid_max": {Text: "high"}}, {"scale_factor": {Numbers: Floats{0}, Type: "float"}},
	} {
		if p := PackingOf(&Var{Name: "x", Type: "float", Attrs: attrs}); p.Err == nil {
			t.Errorf("%+v is accepted", attrs)
		}
	}
}

// dataset is a variable over coordinates, each with a dimension of its own or, with
// one value, a scalar.
type dataset struct {
	h      Header
	values [][]float64
}

// add adds a coordinate.
func (d *dataset) add(name, kind string, values []float64, attrs map[string]string) *dataset {
	v := Var{Name: name, Type: kind, Attrs: map[string]Attr{}}
	for k, text := range attrs {
		v.Attrs[k] = Attr{Text: text}
	}
	if len(values) > 1 {
		v.Dims = []int{len(d.h.Dims)}
		d.h.Dims = append(d.h.Dims, Dim{Name: name, Len: int64(len(values))})
	}
	d.h.Vars, d.values = append(d.h.Vars, v), append(d.values, values)
	return d
}

// fields returns the fields of a variable "v" over all dimensions, or the reason why
// there are none.
func (d *dataset) fields(t *testing.T, attrs map[string]string) ([]Field, string) {
	t.Helper()
	v := Var{Name: "v", Type: "float", Attrs: map[string]Attr{}}
	for i := range d.h.Dims {
		v.Dims = append(v.Dims, i)
	}
	for k, text := range attrs {
		v.Attrs[k] = Attr{Text: text}
	}
	d.h.Vars = append(d.h.Vars, v)
	got, err := find(&d.h, func(slabs []Slab) ([][]float64, error) {
		var out [][]float64
		for _, s := range slabs {
			out = append(out, d.values[s.Var])
		}
		return out, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Fields) == 0 {
		return nil, got.Unused[0].Reason
	}
	return got.Fields, ""
}

// place adds latitudes and longitudes in degrees.
func (d *dataset) place() *dataset {
	return d.add("lat", "double", []float64{60, 50}, map[string]string{"units": "degrees_north"}).add("lon", "double", []float64{0, 10, 20}, map[string]string{"units": "degrees_east"})
}

var unixTime = map[string]string{"units": "hours since 1970-01-01", "standard_name": "time"}

// Units of latitudes and longitudes are converted to degrees, or named.
func TestUnitsOfAngles(t *testing.T) {
	rad := math.Pi / 180
	for unit, factor := range map[string]float64{"degrees_north": 1, "degree_north": 1, "degrees_N": 1, "degree_N": 1, "degreeN": 1, "degreesN": 1, "Degrees_North": 1, "degrees north": 1, "degrees": 1, "degree": 1,
		"deg": 1, "": 1, "radian": rad, "radians": rad, "rad": rad, "Radian": rad, "degrees_south": -1, "0.1 degrees": 10, "gon": 0, "m": 0, "K": 0, "furlong": 0, "percent": 0, "degC": 0, "hours": 0} {
		for _, kind := range []string{"double", "float"} {
			lat := []float64{60 * factor, 50 * factor}
			d := (&dataset{}).add("time", "double", []float64{0}, unixTime)
			d.add("lat", kind, lat, map[string]string{"units": unit, "standard_name": "latitude"}).add("lon", "double", []float64{0, 10, 20}, map[string]string{"units": "degrees_east"})
			fields, reason := d.fields(t, map[string]string{"units": "K"})
			if factor == 0 {
				if !strings.Contains(reason, fmt.Sprintf("%q", unit)) {
					t.Errorf("latitude in %q: %d fields, %q", unit, len(fields), reason)
				}
				continue
			}
			if reason != "" || math.Abs(fields[0].Grid.Lat[0]-60) > 1e-9 {
				t.Errorf("latitude in %q: %q, %v", unit, reason, fields)
			}
		}
	}
}

// Units of levels are converted to Pa and m, or named.
func TestUnitsOfLevels(t *testing.T) {
	for _, c := range []struct {
		standard, unit string
		factor         float64 // of the stored number for 50000 Pa or 2 m; 0 is refused
	}{
		{"air_pressure", "Pa", 1}, {"air_pressure", "hPa", 0.01}, {"air_pressure", "mbar", 0.01}, {"air_pressure", "mb", 0.01}, {"air_pressure", "millibar", 0.01}, {"air_pressure", "millibars", 0.01},
		{"air_pressure", "hectopascal", 0.01}, {"air_pressure", "hectopascals", 0.01}, {"air_pressure", "HPa", 0.01}, {"air_pressure", "HPA", 0.01}, {"air_pressure", "kPa", 0.001}, {"air_pressure", "pascal", 1},
		{"air_pressure", "Pascals", 1}, {"air_pressure", "100 Pa", 0.01}, {"air_pressure", "", 0.01}, {"air_pressure", "psi", 0}, {"air_pressure", "m", 0}, {"air_pressure", "level", 0},
		{"height", "m", 1}, {"height", "metre", 1}, {"height", "meters", 1}, {"height", "M", 1}, {"height", "km", 0.001}, {"height", "cm", 100}, {"height", "mm", 1000}, {"height", "1000 m", 0.001}, {"height", "fathom", 0},
		{"height", "K", 0}, {"height", "degrees", 0}, {"depth", "cm", 100}, {"altitude", "km", 0.001},
	} {
		for _, kind := range []string{"double", "float", "short"} {
			si := map[bool]float64{true: 50000, false: 2}[c.standard == "air_pressure"]
			d := (&dataset{}).add("time", "double", []float64{0}, unixTime).add("z", kind, []float64{si * max(c.factor, 1e-9)}, map[string]string{"units": c.unit, "standard_name": c.standard}).place()
			fields, reason := d.fields(t, map[string]string{"units": "K", "coordinates": "z"})
			if c.factor == 0 {
				if !strings.Contains(reason, fmt.Sprintf("%q", c.unit)) || !strings.Contains(reason, `"z"`) {
					t.Errorf("%s in %q: %d fields, %q", c.standard, c.unit, len(fields), reason)
				}
				continue
			}
			if reason != "" || math.Abs(fields[0].Key.Level.Value-si) > 1e-6*si {
				t.Errorf("%s in %q: %q, %+v, want %g", c.standard, c.unit, reason, fields, si)
			}
		}
	}
}

// calendarMonths stands for units of months, whose length is that of the months after the initialisation.
const calendarMonths = time.Duration(-1)

// Units of leads have their length, or are named.
func TestUnitsOfLeads(t *testing.T) {
	for unit, length := range map[string]time.Duration{"seconds": time.Second, "second": time.Second, "sec": time.Second, "s": time.Second, "minutes": time.Minute, "min": time.Minute, "mins": time.Minute,
		"hours": time.Hour, "Hours": time.Hour, "hour": time.Hour, "hr": time.Hour, "hrs": time.Hour, "h": time.Hour, "days": 24 * time.Hour, "day": 24 * time.Hour, "d": 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
		"milliseconds": time.Millisecond, "nanoseconds": 1, "6 hours": 6 * time.Hour, "15 minutes": 15 * time.Minute, "months": calendarMonths, "month": calendarMonths, "years": 0, "": 0, "1": 0, "fortnights": 0, "K": 0} {
		for _, kind := range []string{"double", "float", "int"} {
			lead := []float64{6, 12}
			d := (&dataset{}).add("init_time", "double", []float64{0}, map[string]string{"units": "hours since 1970-01-01"}).add("lead_time", kind, lead, map[string]string{"units": unit}).place()
			fields, reason := d.fields(t, map[string]string{"units": "K"})
			if length == 0 {
				if !strings.Contains(reason, "lead_time") {
					t.Errorf("leads in %q: %+v, %q", unit, fields, reason)
				}
				continue
			}
			want := (6 * length).Round(time.Microsecond)
			if length == calendarMonths { // until 1 July 1970
				want = 181 * 24 * time.Hour
			}
			if reason != "" || time.Duration(fields[0].Key.Lead) != want {
				t.Errorf("leads in %q of type %s: %+v, %q, want %s", unit, kind, fields, reason, want)
			}
		}
	}
}

// Reference dates and types give the same times, within the precision of the type.
func TestTimesOfAllForms(t *testing.T) {
	want := time.Date(2024, 3, 1, 7, 0, 0, 0, time.UTC)
	origins := map[string]time.Time{"1970-01-01": time.Unix(0, 0), "1970-01-01 00:00:00 UTC": time.Unix(0, 0), "1970-1-1 0:0:0 GMT": time.Unix(0, 0), "1970-01-01T00:00:00Z": time.Unix(0, 0),
		"1970-01-01t00:00Z": time.Unix(0, 0), "1970-01-01 UTC": time.Unix(0, 0), "1970-01-01 00:00:00.0": time.Unix(0, 0), "1970-01-01 01:00:00 +01:00": time.Unix(0, 0), "1969-12-31 18:00:00 -6:00": time.Unix(0, 0),
		"1970-01-01 00:00:00UTC": time.Unix(0, 0), "2024-03-01": want.Add(-7 * time.Hour), "1900-01-01 00:00:0.0": time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)}
	for origin, at := range origins {
		for unit, length := range map[string]time.Duration{"seconds": time.Second, "minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour} {
			for _, kind := range []string{"double", "float"} {
				for _, word := range []string{"since", "SINCE", "after", "from"} {
					text := unit + " " + word + " " + origin
					x := float64(want.Sub(at)) / float64(length)
					if kind == "float" {
						x = float64(float32(x))
					}
					fields, reason := (&dataset{}).add("time", kind, []float64{x}, map[string]string{"units": text, "standard_name": "time"}).place().fields(t, map[string]string{"units": "K"})
					switch {
					case reason != "":
						if !strings.Contains(reason, "precise") || kind == "double" {
							t.Errorf("%s of type %s: %s", text, kind, reason)
						}
					case !fields[0].Key.Init.Equal(want):
						// A float32 of seconds since 1970 is whole, but not precise.
						if gap := fields[0].Key.Init.Sub(want).Abs(); kind == "double" || gap > maxImprecision {
							t.Errorf("%s of type %s: %s", text, kind, fields[0].Key.Init)
						}
					}
				}
			}
		}
	}
}

// The three layouts of initialisation, lead and valid time give the same keys,
// whichever of them the file has.
func TestTimesOfAllLayouts(t *testing.T) {
	hours := func(standard string) map[string]string {
		a := map[string]string{"units": "hours since 1970-01-01"}
		if standard != "" {
			a["standard_name"] = standard
		}
		return a
	}
	lead := map[string]string{"units": "hours", "standard_name": "forecast_period"}
	for name, d := range map[string]*dataset{
		"init, lead":            (&dataset{}).add("a", "double", []float64{24}, hours("forecast_reference_time")).add("b", "double", []float64{6, 12}, lead),
		"init, valid":           (&dataset{}).add("a", "double", []float64{24}, hours("forecast_reference_time")).add("b", "double", []float64{30, 36}, hours("time")),
		"init by name, valid":   (&dataset{}).add("reftime", "double", []float64{24}, hours("")).add("b", "double", []float64{30, 36}, hours("time")),
		"init by name, lead":    (&dataset{}).add("initial_time", "double", []float64{24}, hours("")).add("leadtime", "double", []float64{6, 12}, map[string]string{"units": "hours"}),
		"WeatherBench":          (&dataset{}).add("time", "double", []float64{24}, hours("")).add("prediction_timedelta", "double", []float64{6, 12}, map[string]string{"units": "hours"}),
		"time and lead by name": (&dataset{}).add("time", "double", []float64{24}, hours("")).add("step", "double", []float64{6, 12}, map[string]string{"units": "hours"}),
	} {
		fields, reason := d.place().fields(t, map[string]string{"units": "K"})
		if reason != "" || len(fields) != 2 || fields[1].Key.Init.Unix() != 24*3600 || fields[1].Key.Lead != ensemble.Lead(12*time.Hour) {
			t.Errorf("%s: %+v, %q", name, fields, reason)
		}
	}
}

// Cell methods belong to the axis that they name.
func TestCellMethods(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {}, "time: mean": {"mean"}, "time: point": {}, "area: mean": {}, "area: mean time: maximum": {"maximum"}, "time: sum (interval: 1 hour)": {"sum"}, "realization: mean": {"", "mean"},
		"time: mean realization: standard_deviation": {"mean", "standard_deviation"}, "time: realization: mean": {"mean", "mean"}, "time:mean": {"mean"}, "area: mean where land (comment: time: sum)": {},
		"time: maximum within days time: mean over days": {"mean of maximum"}, "time: minimum (interval: 1 hour comment: sampled) area: mean": {"minimum"}, "latitude: longitude: mean": {}, "step: sum": {"sum"}, "number: mean": {"", "mean"},
	} {
		r := &reader{h: &Header{}}
		methods := parseCellMethods(text)
		if over, members := methods.over(roleTime, r.axisRole(nil)), methods.over(roleMember, r.axisRole(nil)); over != want[0] || members != want[1] {
			t.Errorf("%q: over time %q, over members %q, want %q", text, over, members, want)
		}
	}
}
