// Package unit converts units of files to SI, with a table instead of an algebra of
// units. A unit that is not in the table is kept, so that listings show it.
package unit

import (
	"regexp"
	"strings"
)

// Conversion is the linear conversion SI = Scale·native + Offset.
type Conversion struct {
	SI     string // UDUNITS spelling
	Scale  float64
	Offset float64
}

// IsIdentity reports whether values do not change.
func (c Conversion) IsIdentity() bool { return c.Scale == 1 && c.Offset == 0 }

// Difference returns the conversion of a difference of two values, such as a
// spread: without the offset.
func (c Conversion) Difference() Conversion { return Conversion{c.SI, c.Scale, 0} }

// Apply converts values in place, in float64. NaN stays NaN.
func (c Conversion) Apply(v []float32) {
	if c.IsIdentity() {
		return
	}
	for i, x := range v {
		v[i] = float32(float64(x)*c.Scale + c.Offset)
	}
}

// ToNative converts one SI value to the native unit.
func (c Conversion) ToNative(v float64) float64 { return (v - c.Offset) / c.Scale }

// table lists native units in the spelling of Normalise. Units that are SI or kept
// (%, degrees) are absent.
//
// Source: BIPM SI brochure; UDUNITS-2 database.
var table = map[string]Conversion{
	"hPa": {"Pa", 100, 0}, "mbar": {"Pa", 100, 0}, "mb": {"Pa", 100, 0}, "millibar": {"Pa", 100, 0}, "millibars": {"Pa", 100, 0},
	"kPa": {"Pa", 1000, 0}, "dPa": {"Pa", 0.1, 0}, "pascal": {"Pa", 1, 0}, "Pascal": {"Pa", 1, 0},
	"degC": {"K", 1, 273.15}, "Celsius": {"K", 1, 273.15}, "celsius": {"K", 1, 273.15}, "deg_C": {"K", 1, 273.15},
	"degree_Celsius": {"K", 1, 273.15}, "degrees_Celsius": {"K", 1, 273.15}, "degree_C": {"K", 1, 273.15}, "degrees_C": {"K", 1, 273.15}, "°C": {"K", 1, 273.15},
	"degF": {"K", 5.0 / 9, 459.67 * 5 / 9}, "Fahrenheit": {"K", 5.0 / 9, 459.67 * 5 / 9},
	"kelvin": {"K", 1, 0}, "Kelvin": {"K", 1, 0}, "degK": {"K", 1, 0}, "degrees_K": {"K", 1, 0},
	"gpm": {"m", 1, 0}, "gpdm": {"m", 10, 0}, "dam": {"m", 10, 0}, "gpdam": {"m", 10, 0}, "km": {"m", 1000, 0}, "cm": {"m", 0.01, 0}, "mm": {"m", 0.001, 0},
	"metre": {"m", 1, 0}, "metres": {"m", 1, 0}, "meter": {"m", 1, 0}, "meters": {"m", 1, 0},
	"km h-1": {"m s-1", 1 / 3.6, 0}, "knot": {"m s-1", 1852.0 / 3600, 0}, "knots": {"m s-1", 1852.0 / 3600, 0}, "kt": {"m s-1", 1852.0 / 3600, 0},
	"g kg-1": {"kg kg-1", 1e-3, 0}, "mg kg-1": {"kg kg-1", 1e-6, 0},
	"hPa s-1": {"Pa s-1", 100, 0}, "Pa h-1": {"Pa s-1", 1.0 / 3600, 0},
	"mm h-1": {"kg m-2 s-1", 1.0 / 3600, 0}, "mm d-1": {"kg m-2 s-1", 1.0 / 86400, 0}, "mm day-1": {"kg m-2 s-1", 1.0 / 86400, 0}, "mm s-1": {"kg m-2 s-1", 1, 0},
	"(0 - 1)": {"1", 1, 0}, "0-1": {"1", 1, 0}, "Fraction": {"1", 1, 0}, "fraction": {"1", 1, 0}, "Proportion": {"1", 1, 0}, "~": {"1", 1, 0}, "Numeric": {"1", 1, 0}, "Dimensionless": {"1", 1, 0},
	"percent": {"%", 1, 0},
}

var (
	power = regexp.MustCompile(`([A-Za-z])(?:\*\*|\^)([-+]?[0-9]+)`)
	slash = regexp.MustCompile(`/\s*([A-Za-z]+)([0-9]*)`)
)

// Normalise returns the UDUNITS spelling of a unit: "m**2 s**-2", "m^2/s^2" and "m2
// s-2" become "m2 s-2".
func Normalise(s string) string {
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, ".", " ")), " ")
	s = power.ReplaceAllString(s, "$1$2")
	s = slash.ReplaceAllStringFunc(s, func(m string) string {
		p := slash.FindStringSubmatch(m)
		n := p[2]
		if n == "" {
			n = "1"
		}
		return " " + p[1] + "-" + n
	})
	return strings.Join(strings.Fields(s), " ")
}

// ToSI returns the conversion of a native unit to SI. wanted is the unit of the
// quantity in ensemble.Variables; "" for an unknown quantity. It resolves
// ambiguities. If wanted is "kg m-2", a depth of water ("m" and "mm" of tp) is
// converted to mass per area. If wanted is "1", a percentage is converted to a
// fraction.
func ToSI(native, wanted string) Conversion {
	s := Normalise(native)
	switch {
	case wanted == "kg m-2" && s == "m":
		return Conversion{"kg m-2", 1000, 0}
	case wanted == "kg m-2" && s == "mm":
		return Conversion{"kg m-2", 1, 0}
	case wanted == "1" && (s == "%" || table[s].SI == "%"):
		return Conversion{"1", 0.01, 0}
	}
	if c, ok := table[s]; ok {
		return c
	}
	return Conversion{s, 1, 0}
}
