package cf

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// levelOf converts a value of a vertical coordinate to a level, and returns the
// type of the level and the reason why it cannot.
//
// Unit: Pa for pressure, m for height.
// Source: CF section 4.3 (vertical coordinate): pressure units identify pressure
// levels.
func (r *reader) levelOf(a *auxCoord, x float64) (ensemble.Level, string, string) {
	if x != x {
		return ensemble.Level{}, "", "a level is missing"
	}
	v := a.v
	std, unit, name := v.Text("standard_name"), v.Text("units"), withoutNumber(strings.ToLower(v.Name))
	kind := std
	if kind == "" {
		kind = v.Name
	}
	if f, ok := scaleTo("Pa", unit); ok {
		return ensemble.Level{Kind: ensemble.Pressure, Value: x * f}, std, ""
	}
	pressureName := std == "air_pressure" || std == "" && slices.Contains(pressureNames, name)
	switch {
	case pressureName && unit != "" && unit != "1":
		return ensemble.Level{}, "", unknownUnit(v)
	case std == "" && name == "isobaricinhpa":
		return ensemble.PressureLevel(x), std, ""
	case std == "" && name == "isobaricinpa":
		return ensemble.Level{Kind: ensemble.Pressure, Value: x}, std, ""
	case a.isobaric():
		return ensemble.PressureLevel(x), std, ""
	case pressureName:
		return r.pressureWithoutUnit(a, x)
	case slices.Contains(lengthNames, std) || std == "" && slices.Contains(lengthNames, name):
		f, ok := scaleTo("m", unit)
		switch {
		case ok:
			x *= f
		case unit == "" || unit == "1":
			r.warn("its level %q has no unit and is taken for metres", v.Name)
		default:
			return ensemble.Level{}, "", unknownUnit(v)
		}
		if std == "depth" || std == "" && strings.HasPrefix(name, "depth") {
			return ensemble.Level{Kind: ensemble.DepthBelowLand, Value: math.Round(x*1e4) / 1e4}, std, ""
		}
		if std == "height" || std == "" && strings.HasPrefix(name, "height") {
			// Values stored as float32 are rounded to the nearest short decimal; 1.5
			// and 2 are exact.
			return ensemble.Level{Kind: ensemble.HeightAboveSoil, Value: math.Round(x*1e4) / 1e4}, std, ""
		}
	}
	return ensemble.Level{Kind: ensemble.OtherLevel, Value: x}, kind, ""
}

// pressureNames are names of pressure coordinates without a standard name.
// lengthNames are standard names, or names without one, of coordinates in metres.
var (
	pressureNames = []string{"plev", "pressure", "pressure_level", "isobaricinhpa", "isobaricinpa", "isobaric", "lv_isbl0"}
	lengthNames   = []string{"height", "altitude", "depth", "heightaboveground", "height_above_ground", "geopotential_height"}
)

// Limits in which pressure without a unit has only one meaning: no pressure is
// above 1100 hPa, and 2000 Pa is 20 hPa.
const (
	maxHectopascals = 1100
	minPascals      = 2000
)

// pressureWithoutUnit decides between Pa and hPa by the largest value. Values whose
// largest is between 1100 and 2000, or above 110000, could be either or neither: then
// the reason is not empty.
func (r *reader) pressureWithoutUnit(a *auxCoord, x float64) (ensemble.Level, string, string) {
	switch top := slices.Max(a.values); {
	case top <= maxHectopascals:
		r.warn("its level %q has no unit: values up to %g are taken for hPa", a.v.Name, top)
		return ensemble.PressureLevel(x), a.v.Text("standard_name"), ""
	case top >= minPascals && top <= 100*maxHectopascals:
		r.warn("its level %q has no unit: values up to %g are taken for Pa", a.v.Name, top)
		return ensemble.Level{Kind: ensemble.Pressure, Value: x}, a.v.Text("standard_name"), ""
	default:
		return ensemble.Level{}, "", fmt.Sprintf("its level %q has no unit, and its values up to %g could be Pa or hPa", a.v.Name, top)
	}
}

// isobaricLevels lists the pressure levels of ERA5 and derived archives, in hPa.
var isobaricLevels = []float64{1, 2, 3, 5, 7, 10, 20, 30, 50, 70, 100, 125, 150, 175, 200, 225, 250, 300, 350, 400, 450, 500, 550, 600, 650, 700, 750, 775, 800, 825, 850,
	875, 900, 925, 950, 975, 1000}

// cellsOfLevels reports whether layers are the cells around pressure levels, which
// CMIP writes for values at the levels: standard levels whose cells touch.
func cellsOfLevels(levels, layers []ensemble.Level) bool {
	touch := false
	for k, l := range levels {
		if l.Kind != ensemble.Pressure || !slices.Contains(isobaricLevels, l.Value/100) {
			return false
		}
		touch = touch || k > 0 && (layers[k].Value == layers[k-1].End || layers[k].End == layers[k-1].Value)
	}
	return touch
}

// maxModelLevels is the largest number of model levels in use. Larger values are
// not level numbers.
const maxModelLevels = 137

// isobaric reports whether "level" without unit and standard name, as in
// WeatherBench, is pressure in hPa: all values are pressure levels of ERA5, and at
// least one exceeds the number of any model level.
func (a *auxCoord) isobaric() bool {
	if !slices.Contains([]string{"level", "lev", "pressure_level", "plev", "pressure", "isobaric"}, strings.ToLower(a.v.Name)) || a.v.Text("units") != "" || a.v.Text("standard_name") != "" || len(a.values) == 0 {
		return false
	}
	for _, x := range a.values {
		if !slices.Contains(isobaricLevels, x) {
			return false
		}
	}
	return slices.Max(a.values) > maxModelLevels
}
