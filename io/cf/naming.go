package cf

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// withUnits returns a header with the units that the user states, of variables and coordinates, and a warning for each
// unit of the file that is replaced.
func withUnits(h *Header, n ensemble.Naming) (*Header, []string) {
	if len(n.Units) == 0 {
		return h, nil
	}
	out := *h
	out.Vars = slices.Clone(h.Vars)
	var warnings []string
	for i := range out.Vars {
		v := &out.Vars[i]
		stated, _, ok := ensemble.Find(n, n.Units, v.Path(), v.Name)
		if !ok {
			continue
		}
		if own := v.Text("units"); own != "" && own != stated {
			warnings = append(warnings, fmt.Sprintf("variable %s: its unit %q is replaced by %q, as stated for it", v.Path(), own, stated))
		}
		v.Attrs = maps.Clone(v.Attrs)
		if v.Attrs == nil {
			v.Attrs = map[string]Attr{}
		}
		v.Attrs["units"] = Attr{Text: stated}
	}
	return &out, warnings
}

// decorations are parts of names of own files that do not concern the quantity.
var decorations = []string{"ens", "ensemble", "eps", "member", "members", "fc", "fcst", "forecast", "forecasts", "hindcast", "reforecast", "an", "ana", "analysis", "analyses",
	"reanalysis", "era5", "ref", "reference", "obs", "raw", "data", "field", "gefs", "ifs", "ecmwf", "gfs", "icon"}

// nameParts separates the parts of a name.
var nameParts = regexp.MustCompile(`[_. -]+`)

// lettersOnly matches the name of a quantity alone. Numbers behind other names, such as "t_above", may be thresholds or
// probabilities.
var lettersOnly = regexp.MustCompile(`^[A-Za-z]+$`)

// upperNames are names of variables in capitals that are in wide use.
var upperNames = map[string]string{"T": "t", "U": "u", "V": "v", "Q": "q", "Z": "z", "TP": "tp", "T2M": "2t", "D2M": "2d", "U10": "10u", "V10": "10v", "MSL": "msl", "MSLP": "msl", "PSL": "msl", "SP": "sp",
	"SST": "sst", "SKT": "skt", "TEMP": "t", "GH": "gh", "TCC": "tcc", "RH": "r", "PRECIP": "tp", "precip": "tp", "precipitation": "tp", "rain": "tp", "gust": "10fg", "wind_gust": "10fg"}

// guess reads quantity and level from a name of an own file, such as T850_ens, in a form that no convention defines:
// without decorations such as "ens", it is the name of a variable, with at most one level. identified is the variable
// by the attributes; only its level is then guessed. ok is false if the name is ambiguous, or its unit is not one of
// the quantity.
func guess(own, identified, native string) (name string, level *ensemble.Level, ok bool) {
	var parts []string
	for _, p := range nameParts.Split(own, -1) {
		if p != "" && !slices.Contains(decorations, strings.ToLower(p)) {
			parts = append(parts, p)
		}
	}
	base := strings.Join(parts, "_")
	known, isKnown := ensemble.VariableNamed(identified)
	byName := func(s string) string {
		if n := variableByName(s); n != "" {
			return n
		}
		if n := upperNames[s]; n != "" {
			return n
		}
		return variableByName(strings.ToLower(s))
	}
	if name = byName(base); name == "" {
		stem, l, found := levelInName(base)
		if !found {
			stem, l, found = isobaricSuffix(base)
		}
		if !found {
			return "", nil, false
		}
		level = &l
		if name = byName(stem); name == "" && isKnown && lettersOnly.MatchString(stem) {
			name = identified // the standard name states the quantity
		}
	}
	v, inVocabulary := ensemble.VariableNamed(name)
	switch {
	case !inVocabulary || !unitFits(name, native):
		return "", nil, false
	case isKnown && (name != identified || level == nil || !known.OnManyLevels()):
		return "", nil, false
	case level != nil && level.Kind == ensemble.Pressure && !v.OnManyLevels():
		return "", nil, false
	}
	return name, level, true
}

// isobaricSuffix splits a name that ends in a pressure level of ERA5 of at least 100 hPa, such as T850.
func isobaricSuffix(own string) (stem string, level ensemble.Level, ok bool) {
	m := levelSuffix.FindStringSubmatch(own)
	if m == nil || m[3] != "" {
		return own, level, false
	}
	for _, hPa := range isobaricLevels {
		if hPa >= 100 && m[2] == fmt.Sprint(hPa) {
			return strings.TrimSuffix(m[1], "_"), ensemble.PressureLevel(hPa), true
		}
	}
	return own, level, false
}
