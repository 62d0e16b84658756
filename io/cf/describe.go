package cf

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// description is what the attributes of a variable define for all its fields.
type description struct {
	Field
	// level is the level in the variable's name; nil without one.
	level *ensemble.Level
	// warnings lists contradictions of the attributes, and guesses.
	warnings []string
	// stated is the quantity that the user states; nil: that of the file.
	stated *ensemble.VariableAt
}

// describeVariable returns unit, name, statistic and product of a variable. axes
// gives the role of an axis that cell_methods names. It returns the reason why the
// variable is not a quantity.
//
// The unit stays as the file has it: unit.ToSI converts it, when the quantity is known.
//
// Source: CF sections 3.1 (units), 3.3 (standard name) and 7.3 (cell methods).
func describeVariable(v *Var, axes func(name string) role, n ensemble.Naming) (description, string) {
	d := description{Field: Field{NativeUnit: v.Text("units"), LongName: v.Text("long_name"), Packing: v.Type}}
	if stated, _, ok := ensemble.Find(n, n.Names, v.Path(), v.Name); ok {
		d.stated = &stated
	}
	standard, modifier := quantityOf(v)
	if modifier != "" {
		return d, fmt.Sprintf("its standard_name %q is not a quantity but its %s", v.Text("standard_name"), strings.ReplaceAll(modifier, "_", " "))
	}
	methods := parseCellMethods(v.Text("cell_methods"))
	d.Statistic = cmp.Or(methods.over(roleTime, axes), gribStatistic(v.Text("GRIB_stepType")))
	members := methods.over(roleMember, axes)
	switch members {
	case "":
	case "mean":
		d.Key.Product = ensemble.EnsembleMean
	case "standard_deviation":
		d.Key.Product = ensemble.Spread
	default:
		d.Key.Product = ensemble.OtherProduct
	}
	base := v.Name
	// Products have names such as t2m_mean. The suffix is not part of the quantity.
	for _, suffix := range []string{"_ensemble_spread", "_raw_spread", "_raw_mean", "_mean", "_spread"} {
		if own, ok := strings.CutSuffix(base, suffix); ok && members != "" {
			base = own
			break
		}
	}
	d.Difference = strings.Contains(v.Text("units_metadata"), "difference")
	d.setName(base, standard)
	d.Key.Member = ensemble.NoMember
	applyScalarAttributes(&d, v)
	return d, ""
}

// setName identifies the quantity: as the user states it, else by the attributes, else by a guess from the name. A
// contradiction of name, standard name and unit becomes a warning.
func (d *description) setName(own, standard string) {
	if d.stated != nil {
		d.Key.Variable = d.stated.Variable
		if d.stated.HasLevel {
			d.level = &d.stated.Level
		}
		return
	}
	var warning string
	if d.Key.Variable, d.level, warning = identify(own, standard, d.NativeUnit); warning != "" {
		d.warnings = append(d.warnings, warning)
	}
	if known, ok := ensemble.VariableNamed(d.Key.Variable); !ok && standard == "" || ok && d.level == nil && known.OnManyLevels() {
		if name, level, ok := guess(own, d.Key.Variable, d.NativeUnit); ok {
			d.Key.Variable, d.level, d.Guessed = name, level, true
		}
	}
	if d.Guessed {
		is := ensemble.VariableAt{Variable: d.Key.Variable, HasLevel: d.level != nil}
		if d.level != nil {
			is.Level = *d.level
		}
		d.warnings = append(d.warnings, fmt.Sprintf("it is taken for %s by its name alone; `names: {%s: %s}` under `data:` states that, or another variable and level", is, own, is))
	}
}

// applyScalarAttributes reads the quantile, event or member of a variable from
// attributes. Products for CDO have them there, because their variables have no further
// dimensions. At most one applies; the quantile has precedence over the event, the event
// over the member. The limits of an event are in threshold_units; without that attribute
// they are not converted.
func applyScalarAttributes(d *description, v *Var) {
	number := func(name string) []float64 { return v.Attrs[name].Numbers }
	relation := relations[v.Text(relationAttribute)]
	k := &d.Key
	switch {
	case len(number("quantile")) == 1:
		k.Product, k.QuantileProbability = ensemble.Quantile, number("quantile")[0]
	case relation == ensemble.Between && len(number("threshold")) == 2:
		k.Product, k.Event = ensemble.Probability, ensemble.Event{Relation: relation, Lower: number("threshold")[0], Upper: number("threshold")[1]}
	case (relation == ensemble.Above || relation == ensemble.AtLeast) && len(number("threshold")) == 1:
		k.Product, k.Event = ensemble.Probability, ensemble.Event{Relation: relation, Lower: number("threshold")[0]}
	case (relation == ensemble.Below || relation == ensemble.AtMost) && len(number("threshold")) == 1:
		k.Product, k.Event = ensemble.Probability, ensemble.Event{Relation: relation, Upper: number("threshold")[0]}
	case len(number("realization")) == 1:
		k.Member = ensemble.Member(number("realization")[0])
	}
	if k.Product == ensemble.Probability {
		d.EventUnit = v.Text("threshold_units")
		k.Variable, d.level, _ = identify(eventVariable(v.Name), "", d.EventUnit)
	}
}

// cellMethod is a method over axes, such as "time: lat: mean".
type cellMethod struct {
	axes   []string
	method string
}

// cellMethods are those of one variable, in order.
type cellMethods []cellMethod

// parseCellMethods parses a cell_methods attribute. Comments in parentheses, and the
// words after where, over and within, qualify a method and are not axes.
//
// Source: CF section 7.3.
func parseCellMethods(s string) (all cellMethods) {
	var axes []string
	depth, qualifier := 0, false
	for _, w := range strings.Fields(strings.NewReplacer(":", ": ", "(", " ( ", ")", " ) ").Replace(s)) {
		switch {
		case w == "(":
			depth++
		case w == ")":
			depth--
		case depth > 0:
		case strings.HasSuffix(w, ":"):
			axes, qualifier = append(axes, strings.TrimSuffix(w, ":")), false
		case w == "where" || w == "over" || w == "within":
			qualifier = true
		case qualifier:
			qualifier = false
		case len(axes) > 0:
			all, axes = append(all, cellMethod{axes, w}), nil
		}
	}
	return all
}

// over returns the method over the axis with a role; "" for none. The method "point" is
// none. Of several, such as the maximum of means within days, the result names all:
// "maximum of mean". CF lists methods in the order in which they were applied (section
// 7.3), so the last one comes first in the result. axes gives the role of an axis by its
// name.
func (all cellMethods) over(want role, axes func(name string) role) (out string) {
	for _, m := range all {
		for _, a := range m.axes {
			switch {
			case axes(a) != want || m.method == "point":
			case out == "":
				out = m.method
			default:
				out = m.method + " of " + out
			}
		}
	}
	return out
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

// axisRole returns the role of an axis that cell_methods of a variable name: a standard
// name, or the name of a dimension or coordinate. Initialisations and leads are axes of
// time. CF permits all three in cell_methods (section 7.3); a coordinate of the variable
// has precedence over the tables.
func (r *reader) axisRole(all []*auxCoord) func(name string) role {
	return func(name string) role {
		of := rolesByStandardName[name]
		if of == noRole {
			of = rolesByName[strings.ToLower(name)]
		}
		for _, a := range all {
			if a.v.Name == name || len(a.v.Dims) == 1 && r.h.Dims[a.v.Dims[0]].Name == name {
				of = a.role
			}
		}
		if of == roleInit || of == roleLead {
			return roleTime
		}
		return of
	}
}
