package unit

// dimensions are the exponents of metre, kilogram, second, kelvin, mole, radian and
// ampere. The candela of the SI is missing because no field of weather has it; the
// radian is a dimension of its own, so that an angle is not taken for a number. The
// array is comparable, and so the key of maps.
type dimensions [7]int16

// measure is a unit: SI = factor·(native + origin), in the product of base units
// that dims gives.
type measure struct {
	factor float64
	origin float64 // of the scale, in the unit itself: 273.15 for degrees Celsius
	dims   dimensions
}

// Dimensions of the units below. Each is written in the order of the base units: metre,
// kilogram, second, kelvin, mole, radian, ampere.
var (
	dimNone        = dimensions{}
	dimLength      = dimensions{1}
	dimArea        = dimensions{2}
	dimVolume      = dimensions{3}
	dimMass        = dimensions{0, 1}
	dimTime        = dimensions{0, 0, 1}
	dimSpeed       = dimensions{1, 0, -1}
	dimFrequency   = dimensions{0, 0, -1}
	dimForce       = dimensions{1, 1, -2}
	dimPressure    = dimensions{-1, 1, -2}
	dimEnergy      = dimensions{2, 1, -2}
	dimPower       = dimensions{2, 1, -3}
	dimTemperature = dimensions{0, 0, 0, 1}
	dimAmount      = dimensions{0, 0, 0, 0, 1}
	dimAngle       = dimensions{0, 0, 0, 0, 0, 1}
	dimCharge      = dimensions{2: 1, 6: 1}
	dimMassPerArea = dimensions{-2, 1}
	dimMassFlux    = dimensions{-2, 1, -1}
)

const (
	// Exact by definition, except for the year: UDUNITS-2 has the tropical year of 1900,
	// not 365.25 days, and a month is its twelfth part. CF conventions, section 4.4,
	// warn of both as units of time.
	day   = 86400.0
	year  = 365.242198781 * day // tropical year
	inch  = 0.0254
	knot  = 1852.0 / 3600
	pound = 0.45359237
)

// entry is a unit of the database with its names and its symbols.
type entry struct {
	measure
	names   string // case does not matter, the plural is derived
	symbols string // case matters, no plural
}

// database lists the units of UDUNITS-2 that weather fields have.
//
// Source: UDUNITS-2.2.28, udunits2-base.xml, -derived.xml, -accepted.xml and
// -common.xml; BIPM SI brochure.
var database = []entry{
	{measure{1, 0, dimLength}, "metre meter", "m"},
	{measure{1, 0, dimMass}, "kilogram", "kg"},
	{measure{1e-3, 0, dimMass}, "gram", "g"},
	{measure{1000, 0, dimMass}, "tonne metric_ton", "t"},
	{measure{pound, 0, dimMass}, "pound lb avoirdupois_pound", "lb"},
	{measure{1, 0, dimTime}, "second sec", "s"},
	{measure{60, 0, dimTime}, "minute", "min"},
	{measure{3600, 0, dimTime}, "hour hr", "h"},
	{measure{day, 0, dimTime}, "day", "d"},
	{measure{7 * day, 0, dimTime}, "week", ""},
	{measure{year / 12, 0, dimTime}, "month", ""},
	{measure{year, 0, dimTime}, "year yr tropical_year", ""},
	{measure{1, 0, dimTemperature}, "kelvin degree_kelvin degrees_kelvin degree_k degrees_k degreek degreesk deg_k degs_k degk degsk", "K °K"},
	{measure{1, 273.15, dimTemperature}, "celsius degree_celsius degrees_celsius degree_c degrees_c degreec degreesc deg_c degs_c degc degsc", "°C ℃"},
	{measure{5.0 / 9, 0, dimTemperature}, "rankine degree_rankine degrees_rankine degree_r degrees_r degr deg_r", "°R"},
	{measure{5.0 / 9, 459.67, dimTemperature}, "fahrenheit degree_fahrenheit degrees_fahrenheit degree_f degrees_f degreef degreesf deg_f degs_f degf degsf", "°F ℉"},
	{measure{1, 0, dimAmount}, "mole", "mol"},
	{measure{1, 0, dimensions{6: 1}}, "ampere", "A"},
	{measure{1, 0, dimCharge}, "coulomb", "C"},
	{measure{1, 0, dimensions{-2, -1, 4, 0, 0, 0, 2}}, "farad", "F"},
	{measure{1e-28, 0, dimArea}, "barn", "b"},
	{measure{1, 0, dimAngle}, "radian", "rad"},
	{measure{degree, 0, dimAngle}, "degree arc_degree angular_degree degree_north degree_n degrees_north degrees_n degree_east degree_e degrees_east degrees_e degree_true degrees_true degree_west degrees_west", "°"},
	{measure{1, 0, dimPressure}, "pascal", "Pa"},
	{measure{1e5, 0, dimPressure}, "bar", "bar"},
	{measure{101325, 0, dimPressure}, "standard_atmosphere atmosphere", "atm"},
	{measure{133.322387415, 0, dimPressure}, "mm_hg millimeter_hg conventional_millimeter_of_mercury", "mmHg mm_Hg"},
	{measure{3386.388640341, 0, dimPressure}, "inch_hg inhg", "inHg in_Hg"},
	{measure{1, 0, dimForce}, "newton", "N"},
	{measure{1, 0, dimEnergy}, "joule", "J"},
	{measure{4.1868, 0, dimEnergy}, "calorie", "cal"},
	{measure{1, 0, dimPower}, "watt", "W"},
	{measure{1, 0, dimFrequency}, "hertz", "Hz"},
	{measure{1, 0, dimensions{2, 0, -2}}, "gray", "Gy"},
	{measure{9.80665, 0, dimensions{1, 0, -2}}, "standard_free_fall gravity free_fall", "gp"},
	{measure{1e-3, 0, dimVolume}, "litre liter", "L l ℓ"},
	{measure{100, 0, dimArea}, "are", "a"},
	{measure{1e4, 0, dimArea}, "hectare", "ha"},
	{measure{inch, 0, dimLength}, "inch inches in international_inch", ""},
	{measure{12 * inch, 0, dimLength}, "foot feet international_foot", "ft"},
	{measure{36 * inch, 0, dimLength}, "yard", "yd"},
	{measure{63360 * inch, 0, dimLength}, "mile international_mile", "mi"},
	{measure{1852, 0, dimLength}, "nautical_mile international_nautical_mile", ""},
	{measure{knot, 0, dimSpeed}, "knot knot_international international_knot", "kt kts"},
	{measure{0.01, 0, dimNone}, "percent", "%"},
	{measure{1e-6, 0, dimNone}, "ppm ppmv", ""},
	{measure{1e-9, 0, dimNone}, "ppb ppbv", ""},
}

// It is a constant with all digits of UDUNITS-2, so that a field in degrees converts to
// the same bits on each machine.
const degree = 0.017453292519943295 // π/180

// prefixNames are the decimal prefixes of names; case does not matter.
//
// Source: BIPM SI brochure, 9th edition, table 7, without the four prefixes of 2022,
// which UDUNITS-2.2.28 lacks too.
var prefixNames = map[string]float64{"yotta": 1e24, "zetta": 1e21, "exa": 1e18, "peta": 1e15, "tera": 1e12, "giga": 1e9, "mega": 1e6, "kilo": 1e3, "hecto": 1e2, "deka": 10, "deca": 10,
	"deci": 1e-1, "centi": 1e-2, "milli": 1e-3, "micro": 1e-6, "nano": 1e-9, "pico": 1e-12, "femto": 1e-15, "atto": 1e-18, "zepto": 1e-21, "yocto": 1e-24}

// prefixSymbols are the decimal prefixes of symbols. Case matters: "m" is milli, "M"
// mega. The two signs for micro are U+00B5 and U+03BC, which look alike; "u" is their
// ASCII form.
var prefixSymbols = map[string]float64{"Y": 1e24, "Z": 1e21, "E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "h": 1e2, "da": 10,
	"d": 1e-1, "c": 1e-2, "m": 1e-3, "µ": 1e-6, "μ": 1e-6, "u": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15, "a": 1e-18, "z": 1e-21, "y": 1e-24}
