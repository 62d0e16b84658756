package ensemble

import "math"

// Range is what values of a variable can be.
//
// Unit: SI, that of the variable.
type Range struct{ Min, Max float64 }

// Contains says whether a value lies in the range. NaN does not.
func (r Range) Contains(v float64) bool { return v >= r.Min && v <= r.Max }

// ranges are the values that instantaneous fields and accumulations can have anywhere in
// the atmosphere below 0.01 hPa, wide enough for any model and narrow enough that a
// wrong unit or a flipped bit of an exponent falls outside.
//
// Source: WMO archive of weather and climate extremes (wmo.asu.edu): surface
// temperature 184 to 330 K, pressure at mean sea level 870 to 1084 hPa, gusts to
// 113 m s-1, rain of 15 days to 6.4 m. COSPAR international reference atmosphere 1986:
// temperature to 0.01 hPa from 130 to 320 K. Jets of the stratosphere reach 150 m s-1;
// a wide margin is added to all.
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
}

// nonNegative are the variables of the vocabulary whose values crowd near 0 and never fall
// below it, so that a symmetric distribution of them reaches where no value can be.
// Temperatures and pressures are positive too, but far from 0.
var nonNegative = map[string]bool{"q": true, "r": true, "10si": true, "10fg": true, "tp": true, "cp": true, "tcw": true, "tcwv": true}

// NonNegative says whether values end at 0; ok is false for variables that have another
// bound, or of which nothing is known.
func (v Variable) NonNegative() (bounded, ok bool) {
	_, known := VariableNamed(v.Name)
	return nonNegative[v.Name], known && v.Name != "tcc" // from 0 to 1
}

// Plausible is the range of a variable's values at a level; ok is false where none is
// known. Heights and geopotential of a pressure level lie around those of the standard
// atmosphere.
func (v Variable) Plausible(l Level) (r Range, ok bool) {
	if r, ok := ranges[v.Name]; ok {
		return r, true
	}
	if v.Name != "gh" && v.Name != "z" || l.Kind != Pressure || l.Value <= 0 {
		return Range{}, false
	}
	// The mean temperature between the ground and a level differs from the standard one
	// by less than 25 %, that of the ground's pressure by less than 130 hPa.
	h := StandardHeight(l.Value)
	r = Range{h - 0.25*math.Abs(h) - 1200, h + 0.25*math.Abs(h) + 1200}
	if v.Name == "z" {
		r = Range{r.Min * StandardGravity, r.Max * StandardGravity}
	}
	return r, true
}

// StandardGravity turns geopotential height into geopotential.
//
// Unit: m s-2. Source: ISO 80000-3.
const StandardGravity = 9.80665

// StandardHeight is the geopotential height of a pressure in the standard atmosphere.
//
//	below 226.32 hPa: h = h_b + (T_b/L)·((p/p_b)^(-R·L/g) - 1), and
//	h = h_b - (R·T_b/g)·ln(p/p_b) where L = 0
//
// Unit: Pa in, m out. Above the table its last layer goes on.
// Source: ISO 2533:1975, U.S. Standard Atmosphere 1976, table 4.
func StandardHeight(p float64) float64 {
	const gas = 287.0528 // of dry air, J kg-1 K-1
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

// UnitMistake is a unit that values are in though the file says otherwise.
type UnitMistake struct {
	Unit          string // what the values seem to be in
	Scale, Offset float64
}

// unitMistakes are units, by the SI unit that a file states or implies, that values are
// often in instead: SI = Scale·value + Offset.
var unitMistakes = map[string][]UnitMistake{
	"K":       {{"degC", 1, 273.15}, {"degF", 5.0 / 9, 459.67 * 5 / 9}, {"hundredths of K", 0.01, 0}},
	"m":       {{"dam", 10, 0}, {"m2 s-2 (geopotential)", 1 / StandardGravity, 0}, {"km", 1000, 0}},
	"m2 s-2":  {{"m (height)", StandardGravity, 0}, {"dam (height)", 10 * StandardGravity, 0}},
	"Pa":      {{"hPa", 100, 0}, {"kPa", 1000, 0}},
	"kg kg-1": {{"g kg-1", 1e-3, 0}},
	"kg m-2":  {{"m", 1000, 0}, {"thousandths of kg m-2", 1e-3, 0}},
}

// GuessUnit guesses what unit values are in that reach from lo to hi and should be in the
// unit of the variable.
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

// IsPrescribed says whether members may share a field that others differ in, and leads
// repeat it: the sea surface of a model without an ocean, or with fewer analyses of the
// ocean than members.
func (v Variable) IsPrescribed() bool { return v.Name == "sst" }

// IsMasked says whether fields of the variable have no values in some places by nature: the
// temperature of the sea on land.
func (v Variable) IsMasked() bool { return v.Name == "sst" }

// Evolves says whether fields of the variable at a level differ between any two times and
// members: those of the vocabulary at their own level do. Others may be prescribed, as
// orography and masks are.
func (v Variable) Evolves(l Level) bool {
	if v.IsPrescribed() {
		return false
	}
	if v.OnManyLevels() {
		return l.Kind == Pressure
	}
	return l == v.Level
}
