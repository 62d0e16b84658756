package cf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ensemble-weather/ensemble/io/unit"
)

// factorUnit splits a unit such as "1000 m" or "6 hours" into factor and unit.
//
// Source: UDUNITS-2, grammar: a unit may be scaled by a number.
func factorUnit(s string) (factor float64, rest string) {
	s = strings.TrimSpace(s)
	if first, after, ok := strings.Cut(s, " "); ok {
		if f, err := strconv.ParseFloat(first, 64); err == nil && f > 0 && !math.IsInf(f, 0) {
			return f, strings.TrimSpace(after)
		}
	}
	return 1, s
}

// scaleTo returns the factor from a unit to a unit of SI, such as Pa or m. A unit with
// an offset, such as degC, has no factor.
func scaleTo(si, native string) (factor float64, ok bool) {
	f, name := factorUnit(native)
	// Units of coordinates are often capitalised in other ways than SI ("HPA").
	for _, spelling := range []string{name, strings.ToLower(name), capitals[strings.ToLower(name)]} {
		if c := unit.ToSI(spelling, si); spelling != "" && c.SI == si && c.Offset == 0 {
			return f * c.Scale, true
		}
	}
	return 0, false
}

// capitals gives the spelling of units by their lower case.
var capitals = map[string]string{"pa": "Pa", "hpa": "hPa", "kpa": "kPa", "hectopascal": "hPa", "hectopascals": "hPa", "pascals": "Pa", "kilopascal": "kPa", "millibar": "mbar", "millibars": "mbar"}

// isPressureUnit reports whether a unit identifies a pressure coordinate (CF section
// 4.3).
func isPressureUnit(u string) bool {
	_, ok := scaleTo("Pa", u)
	return ok && u != ""
}

// isDirection reports whether a unit is that of latitudes (n, s) or longitudes (e,
// w), such as degrees_north, degree_E or degreeN.
func isDirection(unit, direction string) bool {
	u := strings.ToLower(unit)
	for _, prefix := range []string{"degrees", "degree", "deg"} {
		if rest, ok := strings.CutPrefix(u, prefix); ok {
			rest = strings.TrimLeft(rest, "_ ")
			return rest == direction || rest == map[string]string{"n": "north", "s": "south", "e": "east", "w": "west"}[direction]
		}
	}
	return false
}

// angleUnits gives the length of units of angles in degrees.
var angleUnits = map[string]float64{"": 1, "degrees": 1, "degree": 1, "deg": 1, "°": 1, "arc_degree": 1, "arcdeg": 1, "1": 1,
	"radian": 180 / math.Pi, "radians": 180 / math.Pi, "rad": 180 / math.Pi}

// angleFactor returns the factor from a unit of angles to degrees.
func angleFactor(u string) (float64, bool) {
	switch {
	case isDirection(u, "n") || isDirection(u, "e"):
		return 1, true
	case isDirection(u, "s") || isDirection(u, "w"):
		return -1, true
	}
	f, name := factorUnit(u)
	x, ok := angleUnits[strings.ToLower(name)]
	return f * x, ok
}

// unknownUnit returns the reason why a coordinate is not used.
func unknownUnit(v *Var) string {
	return fmt.Sprintf("the unit %q of its coordinate %q is not understood", v.Text("units"), v.Name)
}

// scaled returns the values multiplied by a factor. It copies, because coordinates are
// shared by all variables of a file.
func scaled(values []float64, factor float64) []float64 {
	if factor == 1 {
		return values
	}
	out := slices.Clone(values)
	for i := range out {
		out[i] *= factor
	}
	return out
}

// isAxisOfProjection reports whether a coordinate is an axis of a map projection,
// whose unit is a length, and not a latitude or longitude.
func isAxisOfProjection(v *Var) bool {
	std := v.Text("standard_name")
	if strings.HasPrefix(std, "projection_") {
		// CDO 2.1 writes projection_x_coordinate for latitudes with a grid mapping;
		// their unit is decisive.
		_, angle := angleFactor(v.Text("units"))
		return !angle || v.Text("units") == "" || v.Text("units") == "1" || strings.HasPrefix(strings.ToLower(v.Text("units")), "rad")
	}
	name := strings.ToLower(v.Name)
	return std == "" && (name == "x" || name == "y") && !isDirection(v.Text("units"), "n") && !isDirection(v.Text("units"), "e")
}

// toAxis converts a horizontal coordinate: angles to degrees, axes of projections to
// metres.
func toAxis(v *Var, values []float64) ([]float64, string) {
	u := v.Text("units")
	if !isAxisOfProjection(v) {
		f, ok := angleFactor(u)
		if !ok {
			return nil, unknownUnit(v)
		}
		return scaled(values, f), ""
	}
	// Axes of rotated and geostationary grids are angles; indexes have no unit.
	if f, ok := angleFactor(u); ok {
		return scaled(values, f), ""
	}
	f, ok := scaleTo("m", u)
	if !ok {
		return nil, unknownUnit(v)
	}
	return scaled(values, f), ""
}

// couldBeRadian returns the reason why latitudes and longitudes without a unit are
// not taken for degrees: all values lie within one turn in radian, as those of MPAS.
func couldBeRadian(lat, lon *auxCoord) string {
	within := func(a *auxCoord, limit float64) bool {
		u := a.v.Text("units")
		return (u == "" || u == "1") && !slices.ContainsFunc(a.values, func(x float64) bool { return math.Abs(x) > limit+1e-3 })
	}
	fraction := func(x float64) bool { return x != math.Trunc(x) }
	if !within(lat, math.Pi/2) || !within(lon, 2*math.Pi) || !slices.ContainsFunc(lat.values, fraction) {
		return ""
	}
	return fmt.Sprintf("its coordinates %q and %q have no unit, and their values could be radian: write units = \"degrees\" or \"radian\" into the file", lat.v.Name, lon.v.Name)
}

// countUnits are units of member numbers.
var countUnits = []string{"", "1", "count", "counts", "numeric", "dimensionless", "-", "~", "member", "members", "number", "none", "no units"}

// toMember converts numbers of members.
func toMember(v *Var, values []float64) ([]float64, string) {
	if !slices.Contains(countUnits, strings.ToLower(v.Text("units"))) {
		return nil, unknownUnit(v)
	}
	return values, ""
}
