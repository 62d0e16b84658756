// Package unit reads the units of files and converts values to the unit of their
// quantity. Units have the grammar of UDUNITS-2 (parse.go) over a database of units
// (database.go). Spellings that files have and UDUNITS-2 does not read are a list
// (spelling.go). Units of a quantity that is not in ensemble.Variables stay as they
// are, except for pressures, temperatures and lengths.
package unit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Conversion is the linear conversion SI = Scale·native + Offset.
//
// The zero value is none: its Scale of 0 would erase a field. Identity is {SI, 1, 0}.
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

// Apply converts values in place, in float64. NaN stays NaN. The product is rounded
// once, to float32: in float32 alone, 273.15 would cost the last bit of a temperature.
// Cost: one pass; none for the identity.
func (c Conversion) Apply(v []float32) {
	if c.IsIdentity() {
		return
	}
	for i, x := range v {
		v[i] = float32(float64(x)*c.Scale + c.Offset)
	}
}

// ToNative converts one SI value to the native unit. It inverts Apply up to rounding.
// Thresholds and reports use it, fields do not.
func (c Conversion) ToNative(v float64) float64 { return (v - c.Offset) / c.Scale }

var (
	// The letter before an exponent is kept, so that "10**3" is not changed.
	power = regexp.MustCompile(`([A-Za-z])(?:\*\*|\^)([-+]?[0-9]+)`)
	// A dot before a letter is a product, before a digit that of a decimal number.
	product = regexp.MustCompile(`\.([A-Za-z])`)
	slash   = regexp.MustCompile(`/\s*([A-Za-z]+)([0-9]*)`)
)

// Normalise returns the UDUNITS spelling of a unit: "m**2 s**-2", "m^2/s^2" and "m2.s-2"
// become "m2 s-2". It rewrites text and does not parse: unknown words stay. Use ToSI for
// values; this is for units that are only shown or compared.
//
// Cost: a map access after the first call for a unit; it is called for each field of a file.
func Normalise(s string) string {
	if u, ok := normalised.Load(s); ok {
		return u.(string)
	}
	u := normalise(s)
	normalised.Store(s, u)
	return u
}

// normalised holds results of Normalise.
var normalised sync.Map // string → string

func normalise(s string) string {
	s = strings.Join(strings.Fields(product.ReplaceAllString(s, " $1")), " ")
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

// pair is the key of conversions.
type pair struct{ native, wanted string }

// conversions holds results of ToSI, which is called for each field of a file.
var conversions sync.Map // pair → Conversion

// ToSI returns the conversion of a native unit to SI. wanted is the unit of the
// quantity in ensemble.Variables; "" for an unknown quantity. If wanted is a mass of
// water per area ("kg m-2" of tp), a depth of water is converted ("m", "mm",
// "inch"). If native is not a unit of the quantity, SI is not wanted: Why gives the
// reason.
//
// Cost: a map access after the first call for a pair. The number of pairs is bounded by
// the units of files that were opened.
func ToSI(native, wanted string) Conversion {
	key := pair{native, wanted}
	if c, ok := conversions.Load(key); ok {
		return c.(Conversion)
	}
	c, ok := convert(native, wanted)
	if !ok {
		c = Conversion{Normalise(native), 1, 0}
	}
	conversions.Store(key, c)
	return c
}

// IsKnown reports whether a text is a unit: of UDUNITS-2, or a spelling that files have.
func IsKnown(text string) bool {
	units, _ := readings(text)
	return len(units) > 0
}

// densityOfWater converts a depth of water to mass per area, in kg m-3. It is that
// of the definition of precipitation in WMO-No. 8.
const densityOfWater = 1000

// keptUnits are the units to which values of unknown quantities are converted, by
// dimensions.
var keptUnits = map[dimensions]string{dimTemperature: "K", dimPressure: "Pa", dimLength: "m"}

// convert returns the conversion of a unit to that of a quantity. The result is false if
// native is empty or is no unit of the quantity.
//
// If wanted is "", only temperatures, pressures and lengths convert; everything else of
// an unknown quantity keeps its own unit, since a wrong guess would be silent. Otherwise
// the first reading of equal dimensions wins, or a depth of water for a mass per area.
func convert(native, wanted string) (Conversion, bool) {
	if strings.TrimSpace(native) == "" {
		return Conversion{}, false // without a unit, a humidity may be a fraction or per cent
	}
	units, _ := readings(native)
	if wanted == "" {
		for _, u := range units {
			if si := keptUnits[u.dims]; si != "" {
				return conversion(u, measure{factor: 1, dims: u.dims}, si), true
			}
		}
		if s := fieldSpellings[strings.ToLower(Normalise(native))]; s == "1" || s == "%" {
			return Conversion{s, 1, 0}, true
		}
		return Conversion{}, false
	}
	target, err := parse(wanted)
	if err != nil {
		return Conversion{}, false
	}
	for _, u := range units {
		if u.dims == target.dims {
			return conversion(u, target, wanted), true
		}
		if asMass, ok := waterMass(u); ok && asMass.dims == target.dims {
			return conversion(asMass, target, wanted), true
		}
	}
	return Conversion{}, false
}

// waterMass returns the mass per area of a depth of water. A rate of depth ("mm/h")
// becomes a mass flux in the same way. The result is false for all other dimensions. The
// origin is dropped, since a depth has none.
func waterMass(u measure) (measure, bool) {
	if u.dims != dimLength && u.dims != dimSpeed {
		return u, false
	}
	return u.times(measure{factor: densityOfWater, dims: dimensions{-3, 1}}), true
}

// conversion returns the conversion between units of the same dimensions. Numbers
// are rounded to 15 digits: 1 in is 25.4 mm, not 25.399999999999999.
//
// It solves from.factor·(x + from.origin) = to.factor·(y + to.origin) for y.
func conversion(from, to measure, si string) Conversion {
	return Conversion{si, round(from.factor / to.factor), round(from.factor/to.factor*from.origin - to.origin)}
}

// round returns x rounded to 15 significant decimal digits, which float64 represents
// without loss (DBL_DIG).
func round(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 15, 64), 64)
	if err != nil {
		return x
	}
	return y
}

// quantities names dimensions in reasons.
var quantities = map[dimensions]string{dimLength: "a length", dimArea: "an area", dimVolume: "a volume", dimMass: "a mass", dimTime: "a time", dimSpeed: "a speed", dimFrequency: "a frequency",
	dimForce: "a force", dimPressure: "a pressure", dimEnergy: "an energy", dimPower: "a power", dimTemperature: "a temperature", dimAmount: "an amount of substance", dimAngle: "an angle", dimCharge: "an electric charge",
	dimMassPerArea: "a mass per area", dimMassFlux: "a rate, mass per area and time", dimNone: "a number", {2, 0, -2}: "a geopotential or an energy per mass", {-1, 1, -3}: "a rate of change of pressure",
	{-3, 1}: "a density", {0, 1, -3}: "a flux of energy", {0, 1, -2}: "an energy per area"}

// overHours matches a depth with the interval in its unit: "mm/6h".
var overHours = regexp.MustCompile(`(?i)^\s*([a-z]+)\s*(?:/|per)\s*\(?\s*([0-9]+)\s*-?\s*(h|hr|hrs|hour|hours|d|day|days|min|minutes)\s*\)?\s*$`)

// Why returns the reason why a native unit is not one of the quantity whose unit is
// wanted, and the unit that the values probably have, or what else to do if that is
// no question of the unit alone. They are parts of one error message (what, why, fix).
// It distinguishes a missing unit, a rate where an amount is needed, text that is no
// unit, and the unit of another quantity.
func Why(native, wanted string) (why, instead, fix string) {
	if strings.TrimSpace(native) == "" {
		return "the file states no unit; values in " + wanted + " are needed", wanted, ""
	}
	amount := wanted == "kg m-2"
	if m := overHours.FindStringSubmatch(native); m != nil && amount {
		return "it is a rate; an amount in " + wanted + " is needed", m[1],
			fmt.Sprintf("the values must be sums over %s %s, which the target states by statistic: sum and interval: %s%s unless the file has cell_methods and bounds; if they are rates, name the variable a rate, such as prate", m[2], m[3], m[2], strings.ToLower(m[3][:1]))
	}
	units, err := readings(native)
	if len(units) == 0 {
		return fmt.Sprintf("it is not a unit of UDUNITS-2 (%v); values in %s are needed", err, wanted), wanted, ""
	}
	u := units[0]
	of := quantities[u.dims]
	if of == "" {
		of = "another quantity"
	}
	if amount && (u.dims == dimMassFlux || u.dims == dimSpeed) {
		return "it is a rate; an amount in " + wanted + " is needed", "", "multiply the values by the length of their interval and write \"kg m-2\" into the file; or name the variable a rate, such as prate"
	}
	return fmt.Sprintf("it is the unit of %s; values in %s are needed", of, wanted), wanted, ""
}
