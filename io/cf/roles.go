package cf

import (
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

// rolesByStandardName gives the role of a coordinate by its CF standard name.
var rolesByStandardName = map[string]role{
	"longitude": roleX, "projection_x_coordinate": roleX, "grid_longitude": roleX,
	"latitude": roleY, "projection_y_coordinate": roleY, "grid_latitude": roleY,
	"air_pressure": roleLevel, "height": roleLevel, "altitude": roleLevel, "depth": roleLevel, "model_level_number": roleLevel,
	"atmosphere_hybrid_sigma_pressure_coordinate": roleLevel, "geopotential_height": roleLevel,
	"time": roleTime, "forecast_reference_time": roleInit, "forecast_period": roleLead, "realization": roleMember,
}

// rolesByName gives the role of a coordinate without a standard name, by its name
// in lower case.
var rolesByName = map[string]role{
	"lon": roleX, "longitude": roleX, "x": roleX, "rlon": roleX, "lat": roleY, "latitude": roleY, "y": roleY, "rlat": roleY,
	"level": roleLevel, "lev": roleLevel, "plev": roleLevel, "pressure": roleLevel, "pressure_level": roleLevel, "isobaricinhpa": roleLevel, "height": roleLevel,
	"time": roleTime, "valid_time": roleTime, "forecast_reference_time": roleInit, "reference_time": roleInit, "init_time": roleInit,
	"forecast_period": roleLead, "step": roleLead, "lead": roleLead, "lead_time": roleLead, "prediction_timedelta": roleLead,
	"realization": roleMember, "number": roleMember, "member": roleMember, "ensemble": roleMember, "ens": roleMember, "ensemble_member": roleMember,
	"percentile": roleQuantile, "quantile": roleQuantile, "threshold": roleOther, "probability": roleOther,
}

// relations gives the relation of an event by the value of relationAttribute.
//
// Source: IMPROVER.
var relations = map[string]ensemble.Relation{"greater_than": ensemble.Above, "greater_than_or_equal_to": ensemble.Above, "above": ensemble.Above,
	"less_than": ensemble.Below, "less_than_or_equal_to": ensemble.Below, "below": ensemble.Below, "between_thresholds": ensemble.Between}

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
	case strings.HasPrefix(unit, "degrees_n") || strings.HasPrefix(unit, "degree_n"):
		return roleY
	case strings.HasPrefix(unit, "degrees_e") || strings.HasPrefix(unit, "degree_e"):
		return roleX
	}
	if r := rolesByName[name]; r != noRole {
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
	if pressureUnits[unit] || v.Text("positive") != "" {
		return roleLevel
	}
	return noRole
}

// pressureUnits lists the units that identify a pressure coordinate (CF section
// 4.3).
var pressureUnits = map[string]bool{"Pa": true, "hPa": true, "mbar": true, "mb": true, "millibar": true, "millibars": true, "kPa": true}

// isTimeUnit reports whether a unit is a time since a reference (CF section 4.4).
func isTimeUnit(unit string) bool { return strings.Contains(unit, " since ") }

// splitNames splits an attribute that lists variables.
func splitNames(list string) []string { return strings.Fields(list) }

// referenced returns the variables that an attribute of other variables names.
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

// metadataVariables returns the variables that describe others: coordinates,
// bounds, grid mappings, ancillary variables and the like.
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
