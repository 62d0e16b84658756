package cf

import (
	"cmp"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// role is the meaning of a dimension or coordinate variable.
type role int

const (
	noRole role = iota
	roleX
	roleY
	roleLevel
	roleTime   // valid time
	roleInit   // forecast_reference_time
	roleLead   // forecast_period
	roleMember // realization
	roleQuantile
	roleThreshold // of an event, with the attribute spp__relative_to_threshold
	roleOther     // a statistic over members that is not supported
)

// roleDefinition is one row of the table of coordinates: by which names a
// coordinate is found, and how its unit is read.
type roleDefinition struct {
	role role
	// standardNames are those of CF. names are names of variables and dimensions, in
	// lower case, of files that do not follow CF.
	standardNames, names []string
	// convert returns the values in the unit of this package, or the reason why their
	// unit is not understood. nil for times and levels, whose units levelOf and
	// parseTimeUnit read.
	convert func(v *Var, values []float64) ([]float64, string)
}

// roleDefinitions is the table of coordinates, in the order of precedence.
var roleDefinitions = []roleDefinition{
	{roleX, []string{"longitude", "projection_x_coordinate", "projection_x_angular_coordinate", "grid_longitude"},
		[]string{"lon", "longitude", "x", "rlon", "clon", "xlong", "nav_lon", "loncell", "lons", "tlong", "gridlon_0", "lon_0"}, toAxis},
	{roleY, []string{"latitude", "projection_y_coordinate", "projection_y_angular_coordinate", "grid_latitude"},
		[]string{"lat", "latitude", "y", "rlat", "clat", "xlat", "nav_lat", "latcell", "lats", "tlat", "gridlat_0", "lat_0"}, toAxis},
	{roleLevel, []string{"air_pressure", "height", "altitude", "depth", "model_level_number", "atmosphere_hybrid_sigma_pressure_coordinate", "geopotential_height"},
		[]string{"level", "lev", "plev", "pressure", "pressure_level", "isobaricinhpa", "isobaricinpa", "isobaric", "height", "heightaboveground", "height_above_ground", "depth", "lv_isbl0", "p"}, nil},
	{roleTime, []string{"time"}, []string{"time", "valid_time", "validtime", "xtime"}, nil},
	{roleInit, []string{"forecast_reference_time"},
		[]string{"forecast_reference_time", "reference_time", "init_time", "init", "initial_time", "initialization_time", "initialisation_time", "reftime", "analysis_time", "base_time", "basetime", "run_time", "forecast_init_time"}, nil},
	{roleLead, []string{"forecast_period"},
		[]string{"forecast_period", "step", "lead", "lead_time", "leadtime", "prediction_timedelta", "forecast_month", "forecastmonth", "forecast_time", "forecast_hour", "fhour"}, nil},
	{roleMember, []string{"realization"},
		[]string{"realization", "realisation", "number", "member", "members", "ensemble", "ens", "ensemble_member", "member_id", "ensemble_id", "ens_member", "perturbation"}, toMember},
	{roleQuantile, nil, []string{"percentile", "quantile"}, nil},
	{roleOther, nil, []string{"threshold", "probability"}, nil},
}

// rolesByStandardName gives the role of a coordinate by its CF standard name.
// rolesByName gives that of one without a standard name, by its name in lower case.
// definitions holds the rows by role.
var rolesByStandardName, rolesByName, definitions = func() (map[string]role, map[string]role, map[role]roleDefinition) {
	standard, names, rows := map[string]role{}, map[string]role{}, map[role]roleDefinition{}
	for _, d := range roleDefinitions {
		rows[d.role] = d
		for _, n := range d.standardNames {
			standard[n] = d.role
		}
		for _, n := range d.names {
			names[n] = d.role
		}
	}
	return standard, names, rows
}()

// relations gives the relation of an event by the value of relationAttribute.
//
// Source: IMPROVER.
var relations = map[string]ensemble.Relation{"greater_than": ensemble.Above, "greater_than_or_equal_to": ensemble.AtLeast, "above": ensemble.Above,
	"less_than": ensemble.Below, "less_than_or_equal_to": ensemble.AtMost, "below": ensemble.Below, "between_thresholds": ensemble.Between}

// relationAttribute states how the probabilities along a threshold relate to it.
const relationAttribute = "spp__relative_to_threshold"

// roleOf returns the role of a coordinate variable: by standard name, by unit or
// axis, by name, in this order. A threshold has the standard name of its quantity,
// so relationAttribute has precedence.
//
// Source: CF section 4.
func roleOf(v *Var) role {
	std := v.Text("standard_name")
	if relations[v.Text(relationAttribute)] != ensemble.NoEvent {
		return roleThreshold
	}
	if r := rolesByStandardName[std]; r != noRole {
		return r
	}
	unit := v.Text("units")
	name := strings.ToLower(v.Name)
	switch {
	// A time with the name of an initialisation is one; all others are valid times.
	case isTimeUnit(unit):
		if r := rolesByName[name]; r == roleInit {
			return r
		}
		return roleTime
	case isDirection(unit, "n") || isDirection(unit, "s"):
		return roleY
	case isDirection(unit, "e") || isDirection(unit, "w"):
		return roleX
	}
	if r := cmp.Or(rolesByName[name], rolesByName[withoutNumber(name)]); r != noRole {
		return r
	}
	switch v.Text("axis") {
	case "X":
		return roleX
	case "Y":
		return roleY
	case "Z":
		return roleLevel
	case "T":
		return roleTime
	}
	if isPressureUnit(unit) || v.Text("positive") != "" {
		return roleLevel
	}
	return noRole
}

// withoutNumber returns a name without a number at its end, by which THREDDS, CDO and
// ICON distinguish several coordinates of one kind: isobaric3, height_2.
func withoutNumber(name string) string {
	if base := strings.TrimRight(name, "0123456789"); base != name {
		return strings.TrimSuffix(base, "_")
	}
	return name
}

// splitNames splits an attribute that lists variables.
func splitNames(list string) []string { return strings.Fields(list) }

// referenced returns the variables that an attribute of other variables names. Names
// that are not in the file are ignored here; auxiliaries warns of those that matter.
func (h *Header) referenced(attribute string) map[int]bool {
	out := map[int]bool{}
	for i := range h.Vars {
		for _, n := range splitNames(h.Vars[i].Text(attribute)) {
			if k := h.find(n, h.Vars[i].Group); k >= 0 {
				out[k] = true
			}
		}
	}
	return out
}

// metadataVariables returns the variables that describe others: coordinates, bounds,
// grid mappings, ancillary variables and the like. A variable in the result is never a
// field, so the rules are narrow: a pressure of two dimensions may be data, a latitude
// never is.
func metadataVariables(h *Header) map[int]bool {
	out := map[int]bool{}
	mark := func(list string, group string) {
		for _, n := range splitNames(list) {
			if i := h.find(n, group); i >= 0 {
				out[i] = true
			}
		}
	}
	for i := range h.Vars {
		v := &h.Vars[i]
		for _, attr := range []string{"coordinates", "bounds", "climatology", "grid_mapping", "ancillary_variables", "cell_measures", "formula_terms"} {
			// Some attributes have the form "key: variable", CF sections 5.6 and
			// 7.2.
			mark(strings.ReplaceAll(v.Text(attr), ":", " "), v.Group)
		}
		// A coordinate variable or a grid mapping.
		if len(v.Dims) == 1 && h.Dims[v.Dims[0]].Name == v.Name || v.Text("grid_mapping_name") != "" {
			out[i] = true
		}
		if r := rolesByStandardName[v.Text("standard_name")]; r != noRole && r != roleLevel || len(v.Dims) == 0 && rolesByStandardName[v.Text("standard_name")] != noRole {
			out[i] = true
		}
		name := strings.ToLower(v.Name)
		if (name == "lat" || name == "lon" || name == "latitude" || name == "longitude") || strings.HasSuffix(name, "_bnds") || strings.HasSuffix(name, "_bounds") {
			out[i] = true
		}
		if isTimeUnit(v.Text("units")) && len(v.Dims) <= 2 {
			out[i] = true
		}
		if r := rolesByName[name]; len(v.Dims) == 0 && r != noRole {
			out[i] = true
		}
	}
	return out
}

// find returns the variable with a name, searched in the group and its ancestors,
// or -1.
//
// Source: CF section 2.7 (groups).
func (h *Header) find(name, group string) int {
	for {
		for i := range h.Vars {
			if h.Vars[i].Name == name && h.Vars[i].Group == group {
				return i
			}
		}
		if group == "" {
			return -1
		}
		if cut := strings.LastIndex(group, "/"); cut >= 0 {
			group = group[:cut]
		} else {
			group = ""
		}
	}
}
