package cf

import (
	"cmp"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// describeVariable returns what the attributes of a variable define for all its
// fields: unit, name, statistic and product.
//
// Source: CF sections 3.1 (units), 3.3 (standard name) and 7.3 (cell methods).
func describeVariable(v *Var) Field {
	f := Field{NativeUnit: v.Text("units"), LongName: v.Text("long_name"), Packing: v.Type}
	f.Key.Variable = v.Name
	over, within := parseCellMethods(v.Text("cell_methods"))
	f.Statistic = cmp.Or(within, gribStatistic(v.Text("GRIB_stepType")))
	switch over {
	case "":
	case "mean":
		f.Key.Product = ensemble.EnsembleMean
	case "standard_deviation":
		f.Key.Product = ensemble.Spread
	default:
		f.Key.Product = ensemble.OtherProduct
	}
	base := v.Name
	// Products have names such as t2m_mean. The suffix is not part of the quantity.
	for _, suffix := range []string{"_mean", "_spread"} {
		if over != "" {
			base = strings.TrimSuffix(base, suffix)
		}
	}
	f.Key.Variable = canonicalName(base, v.Text("standard_name"))
	f.Key.Member = ensemble.NoMember
	applyScalarAttributes(&f, v)
	return f
}

// applyScalarAttributes reads the quantile, event or member of a variable from
// attributes. Products for CDO have them there, because their variables have no
// further dimensions.
func applyScalarAttributes(f *Field, v *Var) {
	number := func(name string) []float64 { return v.Attrs[name].Numbers }
	relation := relations[v.Text(relationAttribute)]
	switch {
	case len(number("quantile")) == 1:
		f.Key.Product, f.Key.QuantileProbability = ensemble.Quantile, number("quantile")[0]
	case relation == ensemble.Between && len(number("threshold")) == 2:
		f.Key.Product, f.Key.Event = ensemble.Probability, ensemble.Event{Relation: relation, Lower: number("threshold")[0], Upper: number("threshold")[1]}
	case relation == ensemble.Above && len(number("threshold")) == 1:
		f.Key.Product, f.Key.Event = ensemble.Probability, ensemble.Event{Relation: relation, Lower: number("threshold")[0]}
	case relation == ensemble.Below && len(number("threshold")) == 1:
		f.Key.Product, f.Key.Event = ensemble.Probability, ensemble.Event{Relation: relation, Upper: number("threshold")[0]}
	case len(number("realization")) == 1:
		f.Key.Member = ensemble.Member(number("realization")[0])
	}
	if f.Key.Product == ensemble.Probability {
		f.Key.Variable, f.EventUnit = canonicalName(eventVariable(v.Name), ""), v.Text("threshold_units")
	}
}

// parseCellMethods returns the method over members and the method over time of a
// cell_methods attribute, such as "time: maximum realization: mean". The method
// "point" over time is "". Of two methods over time, such as the maximum of means
// within days, the result names both.
//
// Source: CF sections 7.3 and 7.4.
func parseCellMethods(s string) (members, times string) {
	// Several axes may precede one method: "time: realization: mean".
	words := strings.Fields(strings.ReplaceAll(s, ":", ": "))
	var axes []string
	for _, w := range words {
		if strings.HasSuffix(w, ":") {
			axes = append(axes, strings.TrimSuffix(w, ":"))
			continue
		}
		for _, a := range axes {
			switch r := rolesByName[strings.ToLower(a)]; {
			case r == roleMember:
				members = w
			case (r == roleTime || r == roleLead) && w != "point":
				if times != "" {
					w += " of " + times
				}
				times = w
			}
		}
		axes = nil
	}
	return members, times
}

// gribStatistic converts a step type of ecCodes, which cfgrib and the Climate Data
// Store write in place of cell_methods, to a CF cell method; "" for an instant.
func gribStatistic(stepType string) string {
	switch stepType {
	case "accum":
		return "sum"
	case "avg":
		return "mean"
	case "max":
		return "maximum"
	case "min":
		return "minimum"
	}
	return ""
}

// variableAliases maps short names of other conventions (CMIP, ERA5, IMPROVER) to
// the names of ensemble.Variables.
var variableAliases = map[string]string{
	"tas": "2t", "ta": "t", "zg": "gh", "ua": "u", "va": "v", "wap": "w", "hus": "q", "hur": "r", "psl": "msl", "ps": "sp", "uas": "10u", "vas": "10v", "sfcWind": "10si", "ts": "skt",
	"temperature": "t", "geopotential": "z", "geopotential_height": "gh", "u_component_of_wind": "u", "v_component_of_wind": "v", "specific_humidity": "q", "relative_humidity": "r", "vertical_velocity": "w",
	"2m_temperature": "2t", "mean_sea_level_pressure": "msl", "10m_u_component_of_wind": "10u", "10m_v_component_of_wind": "10v", "total_precipitation": "tp",
}

// gridRelativeNames lists standard names of wind components along the axes of a
// projection. These are neither eastward nor northward wind, whatever the name of
// the variable.
var gridRelativeNames = map[string]bool{"x_wind": true, "y_wind": true, "grid_eastward_wind": true, "grid_northward_wind": true}

// canonicalName returns the name of a quantity in ensemble.Variables. The
// variable's own name has precedence over its standard name; an unknown name is
// returned unchanged.
func canonicalName(own, standard string) string {
	if gridRelativeNames[standard] {
		return standard
	}
	for _, v := range ensemble.Variables {
		if v.Name == own || v.Identifier == own {
			return v.Name
		}
	}
	if n, ok := variableAliases[own]; ok {
		return n
	}
	for _, v := range ensemble.Variables {
		if v.StandardName == standard && standard != "" {
			return v.Name
		}
	}
	return own
}

// resolveByLevel resolves names that depend on the level. air_temperature at 2 m,
// or at 1.5 m of the Met Office, is 2t; wind_speed at 10 m is 10si. A variable that
// exists at one level only, and states none, is at that level.
func resolveByLevel(f *Field) {
	v, ok := ensemble.VariableNamed(f.Key.Variable)
	if !ok {
		return
	}
	// A height coordinate selects the near-surface quantity with the same standard
	// name, within a factor of 2 of its height.
	if f.Key.Level.Kind == ensemble.HeightAboveSoil && v.OnManyLevels() {
		for _, at := range ensemble.Variables {
			if at.StandardName == v.StandardName && at.Level.Kind == ensemble.HeightAboveSoil &&
				f.Key.Level.Value >= at.Level.Value/2 && f.Key.Level.Value <= at.Level.Value*2 {
				f.Key.Variable = at.Name
				return
			}
		}
	}
	if (f.Key.Level == ensemble.Level{}) && !v.OnManyLevels() {
		f.Key.Level = v.Level
	}
}
