package ensemble

import "math"

// Range is the range of possible values of a variable.
//
// Unit: that of the variable, SI.
type Range struct{ Min, Max float64 }

// Contains reports whether a value lies in the range; false for NaN.
func (r Range) Contains(v float64) bool { return v >= r.Min && v <= r.Max }

// ranges holds the possible values of instantaneous fields and accumulations anywhere below the
// 0.01 hPa level. They are wide enough for any model, and narrow enough that a wrong unit or a
// flipped bit of the exponent falls outside.
//
// Source: WMO archive of weather and climate extremes (wmo.asu.edu): surface
// temperature 184 to 330 K, pressure at mean sea level 870 to 1084 hPa, gusts to
// 113 m s-1, rain of 15 days to 6.4 m. COSPAR international reference atmosphere 1986:
// temperature to 0.01 hPa from 130 to 320 K. Stratospheric jets reach 150 m s-1. All ranges
// have a wide margin.
var ranges = map[string]Range{
	"t":    {100, 350},
	"u":    {-250, 250},
	"v":    {-250, 250},
	"w":    {-150, 150},
	"q":    {-0.005, 0.06},
	"r":    {-30, 200},
	"d":    {-0.05, 0.05},
	"vo":   {-0.05, 0.05},
	"2t":   {160, 350},
	"2d":   {120, 330},
	"10u":  {-150, 150},
	"10v":  {-150, 150},
	"10si": {-1, 150},
	"10fg": {-1, 200},
	"msl":  {83_000, 112_000},
	"sp":   {30_000, 115_000},
	"skt":  {140, 400},
	"tp":   {-0.5, 10_000},
	"cp":   {-0.5, 10_000},
	"sst":  {265, 320},
	"tcw":  {-1, 150},
	"tcwv": {-1, 150},
	"tcc":  {-0.01, 1.01},
	"sund": {-60, 32 * 86400},
}

// nonNegative are the variables with a lower bound of 0 near which values are frequent, so that a
// symmetric distribution would extend below it. Temperature and pressure are positive too, but
// far from 0.
var nonNegative = map[string]bool{"q": true, "r": true, "10si": true, "10fg": true, "tp": true, "cp": true, "tcw": true, "tcwv": true, "sund": true}

// NonNegative reports whether 0 is a lower bound of the values; ok is false for variables with
// another bound and for unknown ones.
func (v Variable) NonNegative() (bounded, ok bool) {
	_, known := VariableNamed(v.Name)
	return nonNegative[v.Name], known && v.Name != "tcc" // cloud cover has two bounds, 0 and 1
}

// Plausible is the range of a variable's values at a level; ok is false if it is unknown. Heights
// and geopotential at a pressure level have a range about the standard atmosphere.
func (v Variable) Plausible(l Level) (r Range, ok bool) {
	if r, ok := ranges[v.Name]; ok {
		return r, true
	}
	if v.Name != "gh" && v.Name != "z" || l.Kind != Pressure || l.Value <= 0 {
		return Range{}, false
	}
	// The mean temperature below the level differs by less than 25 % from the standard one, the
	// surface pressure by less than 130 hPa (about 1200 m).
	h := StandardHeight(l.Value)
	r = Range{h - 0.25*math.Abs(h) - 1200, h + 0.25*math.Abs(h) + 1200}
	if v.Name == "z" {
		r = Range{r.Min * StandardGravity, r.Max * StandardGravity}
	}
	return r, true
}

// StandardGravity converts geopotential height to geopotential.
//
// Unit: m s-2. Source: ISO 80000-3.
const StandardGravity = 9.80665

// StandardHeight is the geopotential height of a pressure in the standard atmosphere. In the
// layer with base height h_b, pressure p_b, temperature T_b and temperature gradient L:
//
//	h = h_b + (T_b/L)·((p/p_b)^(-R·L/g) - 1)   for L ≠ 0
//	h = h_b - (R·T_b/g)·ln(p/p_b)              for L = 0
//
// Unit: Pa in, m out. Above the table the last layer is extrapolated.
// Source: ISO 2533:1975, U.S. Standard Atmosphere 1976, table 4.
func StandardHeight(p float64) float64 {
	const gas = 287.0528 // specific gas constant of dry air, J kg-1 K-1
	layers := []struct{ pressure, height, temperature, lapse float64 }{
		{101_325, 0, 288.15, -0.0065}, {22_632.06, 11_000, 216.65, 0}, {5474.889, 20_000, 216.65, 0.001},
		{868.0187, 32_000, 228.65, 0.0028}, {110.9063, 47_000, 270.65, 0}, {66.93887, 51_000, 270.65, -0.0028},
		{3.956420, 71_000, 214.65, -0.002},
	}
	b := layers[0]
	for _, l := range layers[1:] {
		if p <= l.pressure {
			b = l
		}
	}
	if b.lapse == 0 {
		return b.height - gas*b.temperature/StandardGravity*math.Log(p/b.pressure)
	}
	return b.height + b.temperature/b.lapse*(math.Pow(p/b.pressure, -gas*b.lapse/StandardGravity)-1)
}

// UnitMistake is a unit in which values seem to be although the file states another one: SI = Scale·value + Offset.
type UnitMistake struct {
	Unit          string // likely unit of the values
	Scale, Offset float64
}

// unitMistakes lists, for the SI unit that a file states or implies, units that often occur instead.
var unitMistakes = map[string][]UnitMistake{
	"K":       {{"degC", 1, 273.15}, {"degF", 5.0 / 9, 459.67 * 5 / 9}, {"hundredths of K", 0.01, 0}},
	"m":       {{"dam", 10, 0}, {"m2 s-2 (geopotential)", 1 / StandardGravity, 0}, {"km", 1000, 0}},
	"m2 s-2":  {{"m (height)", StandardGravity, 0}, {"dam (height)", 10 * StandardGravity, 0}},
	"Pa":      {{"hPa", 100, 0}, {"kPa", 1000, 0}},
	"kg kg-1": {{"g kg-1", 1e-3, 0}},
	"kg m-2":  {{"m", 1000, 0}, {"thousandths of kg m-2", 1e-3, 0}},
}

// GuessUnit guesses the unit of values from lo to hi that should be in the unit of the variable; ok
// is false if they are plausible, or no unit makes them so.
func (v Variable) GuessUnit(l Level, lo, hi float64) (UnitMistake, bool) {
	r, ok := v.Plausible(l)
	if !ok || r.Contains(lo) && r.Contains(hi) {
		return UnitMistake{}, false
	}
	for _, m := range unitMistakes[v.Unit] {
		if r.Contains(m.Scale*lo+m.Offset) && r.Contains(m.Scale*hi+m.Offset) {
			return m, true
		}
	}
	return UnitMistake{}, false
}

// IsPrescribed reports whether members and leads may share a field: sea surface temperature in a
// model without an ocean, or with fewer ocean analyses than members.
func (v Variable) IsPrescribed() bool { return v.Name == "sst" }

// IsMasked reports whether fields of the variable are always missing in some places: sea surface temperature on land.
func (v Variable) IsMasked() bool { return v.Name == "sst" }

// Evolves reports whether fields of the variable at a level differ between any two times and
// members: true for variables of the vocabulary at their own level. Others, such as orography
// and masks, may be constant.
func (v Variable) Evolves(l Level) bool {
	if v.IsPrescribed() {
		return false
	}
	if v.OnManyLevels() {
		return l.Kind == Pressure
	}
	return l == v.Level
}
