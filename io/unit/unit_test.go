package unit

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
)

func TestNormalise(t *testing.T) {
	for in, want := range map[string]string{"m**2 s**-2": "m2 s-2", "m^2/s^2": "m2 s-2", "m2.s-2": "m2 s-2", "kg m.s-1": "kg m s-1", "0.01 m": "0.01 m", "10**3 kg": "10**3 kg", " W  m-2 ": "W m-2"} {
		if got := Normalise(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestToSI(t *testing.T) {
	for _, c := range []struct {
		native string
		wanted string
		value  float64
		unit   string
		want   float64
	}{
		{"hPa", "", 850, "Pa", 85000},
		{"degC", "", 0, "K", 273.15},
		{"degF", "", 32, "K", 273.15},
		{"gpm", "", 5500, "m", 5500},
		{"g/kg", "", 5, "g kg-1", 5},
		{"g/kg", "kg kg-1", 5, "kg kg-1", 0.005},
		{"m**2 s**-2", "", 7, "m2 s-2", 7},
		{"m^2/s^2", "", 7, "m2 s-2", 7},
		{"m/s", "", 3, "m s-1", 3},
		{"m.s-1", "", 3, "m s-1", 3},
		{"m", "kg m-2", 0.012, "kg m-2", 12},
		{"kg m**-2", "kg m-2", 12, "kg m-2", 12},
		{"furlongs", "", 2, "furlongs", 2},
		{"(0 - 1)", "", 0.5, "1", 0.5},
		{"(0 - 1)", "1", 0.5, "1", 0.5},
		{"%", "1", 25, "1", 0.25},
		{"percent", "1", 25, "1", 0.25},
		{"%", "%", 25, "%", 25},
	} {
		got := ToSI(c.native, c.wanted)
		if v := got.Scale*c.value + got.Offset; got.SI != c.unit || math.Abs(v-c.want) > 1e-9*math.Abs(c.want) {
			t.Errorf("%v %s: got %v %s, want %v %s", c.value, c.native, v, got.SI, c.want, c.unit)
		}
	}
	if d := ToSI("degC", "K").Difference(); d.Offset != 0 || d.Scale != 1 {
		t.Errorf("a spread of 1 degC is 1 K: %+v", d)
	}
}

// udunits holds the results of libudunits2 for unit strings, made by testdata/make.py.
//
//go:embed testdata/udunits.tsv
var udunits string

// TestUDUNITS: strings that UDUNITS-2 reads have its scale and origin, strings that
// it rejects are rejected, and dimensions differ where it finds them different.
func TestUDUNITS(t *testing.T) {
	for line := range strings.Lines(udunits) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		m, err := parse(f[0])
		to, errTo := parse(f[1])
		switch {
		case f[2] == "?":
			if err == nil {
				t.Errorf("%q is not a unit of UDUNITS-2, got %+v", f[0], m)
			}
			continue
		case err != nil || errTo != nil:
			t.Errorf("%q to %q: %v, %v", f[0], f[1], err, errTo)
			continue
		}
		// libudunits2 converts to reciprocals and counts an angle as a number.
		m.dims[5], to.dims[5] = 0, 0
		if m.dims == to.raised(-1).dims && m.dims != dimNone {
			continue
		}
		switch {
		case (f[2] == "-") != (m.dims != to.dims):
			t.Errorf("%q to %q: dimensions %v and %v", f[0], f[1], m.dims, to.dims)
			continue
		case f[2] == "-":
			continue
		}
		scale, _ := strconv.ParseFloat(f[2], 64)
		offset, _ := strconv.ParseFloat(f[3], 64)
		c := conversion(m, to, f[1])
		// libudunits2 rounds each step; the factor of 1/x loses two digits.
		if math.Abs(c.Scale-scale) > 1e-9*math.Abs(scale) || math.Abs(c.Offset-offset) > 1e-9*max(1, math.Abs(offset)) {
			t.Errorf("%q to %q: got %v, %v, want %v, %v", f[0], f[1], c.Scale, c.Offset, scale, offset)
		}
	}
}

// TestFieldSpellings: what the list of spellings means is a unit, and is not that of
// UDUNITS-2 for the same text.
func TestFieldSpellings(t *testing.T) {
	for text, means := range fieldSpellings {
		m, err := parse(means)
		if err != nil {
			t.Errorf("%q means %q: %v", text, means, err)
		}
		if strict, err := parse(text); err == nil && strict == m {
			t.Errorf("%q is a unit of UDUNITS-2; the line is not needed", text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"kg m-2", "K @ 273.15", "(m/s)2", "m2 per s**-1", "°C", "1e-3 g.kg-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := parse(s); err == nil && (!(m.factor > 0) || math.IsInf(m.factor, 0)) {
			t.Errorf("%q: %+v", s, m)
		}
		_ = ToSI(s, "kg m-2")
		if why, instead, fix := Why(s, "K"); why == "" || instead == "" && fix == "" {
			t.Errorf("%q: no reason", s)
		}
	})
}

// TestFieldUnits: units as files of weather services spell them become those of their
// quantity, or are refused with the reason. A rate is never an amount.
func TestFieldUnits(t *testing.T) {
	const refused = -1
	for _, c := range []struct {
		wanted string
		value  float64 // in SI of 10 in each unit; refused
		units  []string
		why    string
	}{
		{"K", 283.15, []string{"C", "deg C", "degrees C", "degree C", "degreeC", "degreesC", "degrees Celsius", "Degrees Celsius", "deg_c", "oC", "celcius", "degree_c", "°C", "degC"}, ""},
		{"K", 10, []string{"K", "Kelvin", "kelvin", "k", "degK", "degrees K"}, ""},
		{"K", refused, []string{"Pa", "1", "", "degrees", "degree", "m", "J"}, "K"},
		{"m s-1", 10, []string{"m/s", "m s**-1", "m.s-1", "m s^-1", "ms-1", "m sec-1", "meters per second", "metres/second", "m/sec", "m s⁻¹", "M S-1"}, ""},
		{"m s-1", 5.14444444444444, []string{"knots", "kts", "KT", "kt", "knot", "kn", "Kt"}, ""},
		{"m s-1", 10 / 3.6, []string{"km/h", "km h-1", "kph", "kilometers per hour"}, ""},
		{"m s-1", refused, []string{"m", "s-1", "kg m-2 s-1", "beaufort"}, "m s-1"},
		{"Pa", 1000, []string{"hPa", "hectopascal", "Mb", "mb", "millibar", "HPa", "mbar"}, ""},
		{"Pa", 10, []string{"Pa", "Pascals", "pascal", "PA", "N m-2"}, ""},
		{"Pa", refused, []string{"K", "m", "kg m-2"}, "Pa"},
		{"%", 10, []string{"%", "percent", "Percent", "pct"}, ""},
		{"%", 1000, []string{"1", "(0 - 1)", "fraction"}, ""},
		{"1", 0.1, []string{"percent", "%"}, ""},
		{"1", 1.25, []string{"okta", "oktas"}, ""},
		{"1", refused, []string{"", "K"}, "1"},
		{"%", refused, []string{""}, "no unit"},
		{"kg m-2", 10, []string{"kg/m^2", "kg/m2", "kg m**-2", "Kg m-2", "mm of water equivalent", "l m-2", "mm", "kg m-2", "mm w.e.", "L/m2", "liters per m2", "MM"}, ""},
		{"kg m-2", 10000, []string{"m of water equivalent", "m", "metres", "m water equivalent"}, ""},
		{"kg m-2", 100, []string{"cm"}, ""},
		{"kg m-2", 254, []string{"inch", "inches", "in"}, ""},
		{"kg m-2", refused, []string{"mm/6h", "mm/day", "kg m-2 s-1", "mm h-1", "mm per 3 hours", "inch/hour", "m s-1"}, "it is a rate"},
		{"kg m-2", refused, []string{"kg", "Pa", "mm2"}, "kg m-2"},
		{"kg m-2 s-1", 10.0 / 3600, []string{"mm h-1", "mm/hr", "kg m-2 h-1"}, ""},
		{"kg m-2 s-1", 10.0 / 86400, []string{"mm/day", "mm d-1"}, ""},
		{"kg m-2 s-1", refused, []string{"mm", "kg m-2"}, "kg m-2 s-1"},
		{"m", 10, []string{"gpm", "m", "geopotential metres"}, ""},
		{"m", 100, []string{"dam", "gpdm", "dam "}, ""},
		{"m2 s-2", 10, []string{"m**2 s**-2", "m2 s-2", "m2/s2", "J kg-1", "m2s-2"}, ""},
		{"m2 s-2", refused, []string{"m", "gpm"}, "m2 s-2"},
		{"kg kg-1", 0.01, []string{"g/kg", "g kg**-1"}, ""},
		{"kg kg-1", 10, []string{"kg/kg", "1", "kg kg**-1"}, ""},
	} {
		for _, u := range c.units {
			got := ToSI(u, c.wanted)
			if c.value == refused {
				if got.SI == c.wanted {
					t.Errorf("%q is taken for %s: %+v", u, c.wanted, got)
				}
				if why, _, _ := Why(u, c.wanted); !strings.Contains(why, c.why) {
					t.Errorf("%q as %s: reason %q", u, c.wanted, why)
				}
				continue
			}
			if v := 10*got.Scale + got.Offset; got.SI != c.wanted || math.Abs(v-c.value) > 1e-12*c.value {
				t.Errorf("10 %s: got %v %s, want %v %s", u, v, got.SI, c.value, c.wanted)
			}
		}
	}
}

// TestUnitsOfVariables: of all unit strings, those of the dimensions of a variable are
// converted to its unit and back, depths of water to masses; the others are refused
// with the reason, unless their spelling is a listed one.
func TestUnitsOfVariables(t *testing.T) {
	wanted := map[string]bool{}
	for _, v := range ensemble.Variables {
		wanted[v.Unit] = true
	}
	accepted, refused := 0, 0
	for line := range strings.Lines(udunits) {
		text, _, _ := strings.Cut(line, "\t")
		m, err := parse(text)
		all, _ := readings(text)
		for si := range wanted {
			to, errTo := parse(si)
			if errTo != nil {
				t.Fatal(errTo)
			}
			water := (m.dims == dimLength && to.dims == dimMassPerArea || m.dims == dimSpeed && to.dims == dimMassFlux) && err == nil
			c := ToSI(text, si)
			switch fits := err == nil && m.dims == to.dims || water; {
			case fits && c.SI != si, fits && text != "" && c.Scale <= 0:
				t.Errorf("%q is not converted to %s: %+v", text, si, c)
			case fits:
				accepted++
				if x := c.ToNative(c.Scale*2.5 + c.Offset); math.Abs(x-2.5) > 1e-9*math.Max(1, math.Abs(c.Offset/c.Scale)) {
					t.Errorf("%q to %s and back: 2.5 becomes %v", text, si, x)
				}
			case c.SI == si && len(all) < 2 && err == nil:
				t.Errorf("%q has other dimensions than %s: %+v", text, si, c)
			case c.SI != si:
				refused++
				if why, instead, fix := Why(text, si); !strings.Contains(why, si) || instead == "" && fix == "" {
					t.Errorf("%q for %s: why %q, fix %q", text, si, why, fix)
				}
			}
		}
	}
	if accepted < 250 || refused < 3000 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}
