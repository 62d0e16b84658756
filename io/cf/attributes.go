package cf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// understoodAttributes lists the attributes that change a value, place, time, member or
// unit, and are read. A new reading of an attribute adds it here; otherwise files that
// use it get a warning although it is read.
//
// Source: CF appendix A (attributes); NUG, appendix A.
var understoodAttributes = []string{
	"units", "units_metadata", "standard_name", "cell_methods", "GRIB_stepType", "coordinates", "bounds", "climatology", "calendar", "axis", "positive", "grid_mapping", "grid_mapping_name", // meaning
	"scale_factor", "add_offset", "_FillValue", "missing_value", "valid_range", "valid_min", "valid_max", "_Unsigned", // packing
	"quantile", "threshold", "threshold_units", "realization", "neighbourhood_radius", relationAttribute, // products
}

// ignoredAttributes lists attributes whose names suggest that they change values,
// and that are ignored on purpose, with the reason.
var ignoredAttributes = map[string]string{
	"actual_range":                      "range of the existing values, not a limit",
	"GRIB_missingValue":                 "fill value of the GRIB message from which the values were decoded",
	"GRIB_units":                        "unit of the GRIB message; units has that of the values",
	"GRIB_cfVarName":                    "name only",
	"least_significant_digit":           "precision, not scale",
	"original_units":                    "unit before a conversion that was done",
	"orig_units":                        "unit before a conversion that was done",
	"nominal_units":                     "unit for display",
	"canonical_units":                   "unit of the standard name; units has that of the values",
	"missing_value_count":               "a count",
	"missing_values_count":              "a count",
	"number_of_missing_values":          "a count",
	"_Fletcher32":                       "storage",
	"_NoFill":                           "storage: whether unwritten values were filled",
	"earth_radius":                      "figure of the Earth of a grid mapping, which projections read",
	"scale_factor_at_projection_origin": "scale of a map projection, which projections read",
	"false_easting":                     "offset of a map projection, which projections read",
	"forecastTime_units":                "unit of a copy of the lead; the coordinate has the lead",
	"valid_time_units":                  "unit of a copy of the valid time; the coordinate has the time",
}

// changesValues matches names of attributes that may change values. It errs towards a
// warning: a warning of a harmless attribute is fixed by a row of ignoredAttributes, a
// scale that was ignored silently is wrong by a factor.
var changesValues = regexp.MustCompile(`(?i)fill_?val|missing|no_?data|scale_?factor|add_?offset|multiplier|valid_?(min|max|range)|unsigned|_units$|^unit$`)

// unknownAttributes returns warnings of attributes whose names suggest that they change
// values, and which no convention defines. They are sorted, since maps have no order;
// nil without any.
func unknownAttributes(v *Var) (warnings []string) {
	for name := range v.Attrs {
		if !changesValues.MatchString(name) || slices.Contains(understoodAttributes, name) || ignoredAttributes[name] != "" {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("attribute %s is not defined by CF and is ignored", name))
	}
	slices.Sort(warnings)
	return warnings
}

// timeAttributes are attributes in which converters state times of variables
// without a time coordinate (ncl_convert2nc).
var timeAttributes = []string{"initial_time", "forecast_time", "forecast_time_units"}

// statesTime returns the first attribute that states a time; "" without one.
func statesTime(v *Var) string {
	for _, name := range timeAttributes {
		if _, ok := v.Attrs[name]; ok {
			return name
		}
	}
	return ""
}

// quantityOf returns the standard name of a variable without modifier, and the modifier.
// Both are empty without a standard name. Appendix C of CF lists the modifiers; none of
// them leaves the quantity itself, so any second word counts as one.
//
// Source: CF section 3.3: a standard name may be followed by a modifier, such as
// "air_temperature standard_error".
func quantityOf(v *Var) (standard, modifier string) {
	words := strings.Fields(v.Text("standard_name"))
	switch len(words) {
	case 0:
		return "", ""
	case 1:
		return words[0], ""
	}
	return words[0], strings.Join(words[1:], " ")
}
