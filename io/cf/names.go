package cf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// variableAliases maps short names of other conventions (CMIP, ERA5, IMPROVER, WRF)
// to the names of ensemble.Variables.
var variableAliases = map[string]string{
	"tas": "2t", "ta": "t", "zg": "gh", "ua": "u", "va": "v", "wap": "w", "hus": "q", "hur": "r", "psl": "msl", "ps": "sp", "uas": "10u", "vas": "10v", "sfcWind": "10si", "ts": "skt",
	"temperature": "t", "air_temperature": "t", "temp": "t", "geopotential": "z", "geopotential_height": "gh", "u_component_of_wind": "u", "v_component_of_wind": "v", "wind_u": "u", "wind_v": "v",
	"eastward_wind": "u", "northward_wind": "v", "specific_humidity": "q", "relative_humidity": "r", "rh": "r", "vertical_velocity": "w",
	"dew_point_temperature": "2d", "dewpoint_temperature": "2d", "dewpoint": "2d", "td": "2d", "wind_speed": "10si",
	"mean_sea_level_pressure": "msl", "pressure_reduced_to_msl": "msl", "pressure_msl": "msl", "mslp": "msl", "prmsl": "msl", "surface_pressure": "sp", "PSFC": "sp", "total_precipitation": "tp", "T2": "2t",
	"skin_temperature": "skt", "sea_surface_temperature": "sst", "total_column_water_vapour": "tcwv", "total_cloud_cover": "tcc", "sunshine_duration": "sund", "duration_of_sunshine": "sund",
}

// standardAliases maps standard names to that of ensemble.Variables for the same
// quantity.
var standardAliases = map[string]string{
	"air_pressure_at_sea_level": "air_pressure_at_mean_sea_level", "lwe_thickness_of_precipitation_amount": "precipitation_amount",
	"lwe_thickness_of_convective_precipitation_amount": "convective_precipitation_amount", "atmosphere_mass_content_of_water_vapour": "atmosphere_mass_content_of_water_vapor",
	"lwe_thickness_of_atmosphere_mass_content_of_water_vapor": "atmosphere_mass_content_of_water_vapor", "atmosphere_water_vapor_content": "atmosphere_mass_content_of_water_vapor",
	"omega": "lagrangian_tendency_of_air_pressure",
}

// gridRelativeNames lists standard names of wind components along the axes of a
// projection. These are neither eastward nor northward wind, whatever the name of
// the variable.
var gridRelativeNames = map[string]bool{"x_wind": true, "y_wind": true, "grid_eastward_wind": true, "grid_northward_wind": true}

// variableByName returns the variable with a name of a file, "" without one.
func variableByName(own string) string {
	for _, v := range ensemble.Variables {
		if v.Name == own || v.Identifier == own {
			return v.Name
		}
	}
	if n, ok := variableAliases[own]; ok {
		return n
	}
	// Names of THREDDS: Temperature_isobaric, u-component_of_wind_height_above_ground.
	name := strings.ReplaceAll(strings.ToLower(own), "-", "_")
	for _, suffix := range []string{"_isobaric", "_height_above_ground", "_surface", "_msl"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return variableAliases[name]
}

// variablesOf returns the variables with a standard name, "t" before "2t". The order is
// that of ensemble.Variables; nil for an empty or unknown name.
func variablesOf(standard string) (names []string) {
	if a, ok := standardAliases[standard]; ok {
		standard = a
	}
	for _, v := range ensemble.Variables {
		if v.StandardName == standard && standard != "" {
			names = append(names, v.Name)
		}
	}
	return names
}

// unitFits reports whether values in a unit can be converted to that of a variable. A
// file without a unit contradicts nothing, so the result is true then.
func unitFits(name, native string) bool {
	v, _ := ensemble.VariableNamed(name)
	return native == "" || unit.ToSI(native, v.Unit).SI == v.Unit
}

// levelSuffix matches names that contain the level: temperature_2m, t_850hPa, t2m,
// z500, and levelPrefix 100m_u_component_of_wind.
var (
	levelSuffix = regexp.MustCompile(`^(.*[A-Za-z])_?([0-9]+(?:\.[0-9]+)?)_?(m|hPa|hpa|mb)?$`)
	levelPrefix = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(m|hPa|hpa|mb)_(.+)$`)
)

// levelInName splits a name that contains its level, such as temperature_2m. ok is
// false for names without one. Numbers without a unit are pressure levels in hPa,
// except for winds, which exist at 10, 100 and 200 m.
func levelInName(own string) (base string, level ensemble.Level, ok bool) {
	var number, unit string
	if m := levelPrefix.FindStringSubmatch(own); m != nil {
		number, unit, base = m[1], m[2], m[3]
	} else if m := levelSuffix.FindStringSubmatch(own); m != nil {
		base, number, unit = strings.TrimSuffix(m[1], "_"), m[2], m[3]
	}
	x, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return own, level, false
	case unit == "m":
		return base, ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: x}, true
	case unit != "":
		return base, ensemble.PressureLevel(x), true
	}
	v, known := ensemble.VariableNamed(variableByName(base))
	ambiguous := v.WindComponent() && (x == 100 || x == 200)
	if !known || !v.OnManyLevels() || x < 100 || ambiguous || !slices.Contains(isobaricLevels, x) {
		return own, level, false
	}
	return base, ensemble.PressureLevel(x), true
}

// extremeName matches names of extremes, which are not the quantity at an instant.
var extremeName = regexp.MustCompile(`(?i)(^|_)(max|min|maximum|minimum)(_|$|[0-9])`)

// identify returns the name of a quantity in ensemble.Variables and, if its name
// states one, its level. Standard name and unit decide before the variable's own
// name; an unknown name is returned unchanged. warning is not empty if they
// contradict each other.
//
// Source: CF section 3.3: the standard name identifies the quantity.
func identify(own, standard, native string) (name string, level *ensemble.Level, warning string) {
	if gridRelativeNames[standard] {
		return standard, nil, ""
	}
	byName := variableByName(own)
	if byName == "" {
		if base, l, ok := levelInName(own); ok {
			byName, level = variableByName(base), &l
		}
	}
	byStandard := variablesOf(standard)
	switch {
	case standard == "" || standard == "unknown":
	case len(byStandard) == 0:
		// A standard name of another vocabulary that means the same.
		v, _ := ensemble.VariableNamed(byName)
		if other := variableByName(standard); other != "" && byName != "" {
			if o, _ := ensemble.VariableNamed(other); o.StandardName == v.StandardName {
				break
			}
		}
		if byName != "" && v.OnManyLevels() {
			return standard, level, fmt.Sprintf("its name is %s and its standard_name %s: it is listed by its standard name", own, standard)
		}
		if byName != "" {
			warning = fmt.Sprintf("its standard_name %s is not that of %s, as which it is used", standard, byName)
		}
	case slices.Contains(byStandard, byName):
	case byName == "" && extremeName.MatchString(own):
		return own, level, ""
	case byName != "" && unitFits(byName, native) && !unitFits(byStandard[0], native):
		warning = fmt.Sprintf("its unit %s is not that of its standard_name %s: it is used as %s", native, standard, byName)
	default:
		if byName != "" {
			warning = fmt.Sprintf("its standard_name %s is that of %s, as which it is used", standard, byStandard[0])
		}
		return byStandard[0], level, warning
	}
	if byName == "" {
		return own, level, ""
	}
	return byName, level, warning
}

// resolveByLevel resolves names that depend on the level. air_temperature at 2 m,
// or at 1.5 m of the Met Office, is 2t; wind_speed at 10 m is 10si, and at 100 m it
// is not. A variable that exists at one level only, and states none, is at that
// level. z in metres on pressure levels is geopotential height.
func resolveByLevel(f *Field) {
	v, ok := ensemble.VariableNamed(f.Key.Variable)
	if !ok {
		return
	}
	if v.Name == "z" && f.Key.Level.Kind == ensemble.Pressure && unit.ToSI(f.NativeUnit, v.Unit).SI == "m" {
		f.Key.Variable = "gh"
		return
	}
	if (f.Key.Level == ensemble.Level{}) && !v.OnManyLevels() {
		f.Key.Level = v.Level
	}
	if f.Key.Level.Kind != ensemble.HeightAboveSoil {
		return
	}
	// Within a factor of 2 of its height, the near-surface quantity with the same
	// standard name.
	near := func(at ensemble.Variable) bool {
		return at.Level.Kind == ensemble.HeightAboveSoil && f.Key.Level.Value >= at.Level.Value/2 && f.Key.Level.Value <= at.Level.Value*2
	}
	if !v.OnManyLevels() && (v.Level.Kind != ensemble.HeightAboveSoil || near(v)) {
		return
	}
	name := v.StandardName
	for _, at := range ensemble.Variables {
		if at.StandardName == v.StandardName && (near(at) || at.OnManyLevels() && name == v.StandardName) {
			name = at.Name
			if near(at) {
				break
			}
		}
	}
	f.Key.Variable = name
}
