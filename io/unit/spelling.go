package unit

import (
	"regexp"
	"strings"
)

// fieldSpellings lists spellings that files have and UDUNITS-2 does not read, or
// reads as another quantity ("C" is coulomb, "mb" a small area, "ms-1" per
// millisecond). Keys are in lower case with single blanks. A spelling counts only
// where a quantity of its dimensions is wanted.
//
// Source: attributes of files of ECMWF, NCEP, DWD, Met Office and CMIP; WMO FM 92
// GRIB2, code table 4.2, for gpm; WMO-No. 306, code table 2700, for eighths of cloud.
var fieldSpellings = map[string]string{
	"c": "degC", "deg c": "degC", "degree c": "degC", "degrees c": "degC", "oc": "degC", "ºc": "degC", "deg. c": "degC", "deg celsius": "degC", "degree celsius": "degC", "degrees celsius": "degC",
	"degc.": "degC", "celcius": "degC", "degree celcius": "degC", "degrees celcius": "degC", "f": "degF", "deg f": "degF", "degree f": "degF", "degrees f": "degF", "degree fahrenheit": "degF", "degrees fahrenheit": "degF",
	"deg k": "K", "degree k": "K", "degrees k": "K", "degree kelvin": "K", "degrees kelvin": "K", "k": "K",
	"mb": "hPa", "mbs": "hPa", "hpa": "hPa", "pa": "Pa", "kpa": "kPa",
	"gpm": "m", "gpdm": "dam", "gpdam": "dam", "gpkm": "km", "geopotential meter": "m", "geopotential meters": "m", "geopotential metre": "m", "geopotential metres": "m", "m gpm": "m",
	"kn": "knot", "mph": "mile/hour", "kph": "km/h", "kmh": "km/h", "kmph": "km/h",
	"ms-1": "m s-1", "ms^-1": "m s-1", "ms**-1": "m s-1", "kmh-1": "km h-1",
	"m2s-2": "m2 s-2", "m**2s**-2": "m2 s-2", "m^2s^-2": "m2 s-2", "rad s-1": "s-1", "radian s-1": "s-1", "rad/s": "s-1",
	"kgkg-1": "kg kg-1", "gkg-1": "g kg-1", "kgm-2": "kg m-2", "lm-2": "l m-2",
	"(0 - 1)": "1", "(0-1)": "1", "0 - 1": "1", "0-1": "1", "fraction": "1", "proportion": "1", "numeric": "1", "dimensionless": "1", "none": "1", "unitless": "1", "~": "1",
	"pct": "%", "per cent": "%", "percentage": "%", "okta": "0.125", "oktas": "0.125",
}

// unitWords corrects the case of symbols in field spellings: "Kg m-2", "HPa/h". Only
// words whose other case is no unit in use are listed: "M" as mega needs a unit behind
// it, "MM" is none.
var unitWords = regexp.MustCompile(`\b(Kg|KG|HPa|hpa|HPA|Hpa|PA|KPa|kpa|M|S|MM|Mm|CM|Cm|KM|Km|KT|Kt|Kts|KTS|SEC|mins|hrs)\b`)

// correctedWords gives the symbols for unitWords.
var correctedWords = map[string]string{"kg": "kg", "hpa": "hPa", "pa": "Pa", "kpa": "kPa", "m": "m", "s": "s", "mm": "mm", "cm": "cm", "km": "km", "kt": "kt", "kts": "kts", "sec": "s",
	"mins": "min", "hrs": "h"}

// waterWords matches the words that make a depth one of liquid water. "mm of water", "kg
// m-2 water equivalent" and "m w.e." lose them. The unit itself stays:
// waterMass converts a depth wherever a mass per area is wanted.
var waterWords = regexp.MustCompile(`(?i)(\s+of)?(\s+liquid)?\s+(water([ _]equivalent)?|w\.?\s?e\.?|h2o)\s*$`)

// readings returns the units that a spelling may mean, the first of UDUNITS-2 alone. why
// is the error of UDUNITS-2. The caller takes the first whose dimensions are those of
// its quantity, so the order matters: what UDUNITS-2 reads precedes the list, the list
// precedes corrected case. There are at most four. All fail for text that is no unit in
// any spelling; then units is empty.
func readings(text string) (units []measure, why error) {
	strict, why := parse(text)
	if why == nil {
		units = append(units, strict)
	}
	add := func(s string) {
		if m, err := parse(s); err == nil {
			units = append(units, m)
		}
	}
	plain := strings.Join(strings.Fields(text), " ")
	if s, ok := fieldSpellings[strings.ToLower(plain)]; ok {
		add(s)
	}
	if depth := waterWords.ReplaceAllString(plain, ""); depth != plain {
		add(depth)
	}
	if s := unitWords.ReplaceAllStringFunc(plain, func(w string) string { return correctedWords[strings.ToLower(w)] }); s != plain {
		add(s)
	}
	return units, why
}
