package task

import (
	"fmt"
	"strconv"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/io/unit"
)

// EventSI returns the event of a question, with its limits converted to SI units.
//
// Errors: exit 64 for a unit that cannot be converted to that of the variable.
func EventSI(q ensemble.VariableEvent) (ensemble.Event, error) {
	e := q.Event
	v, _ := ensemble.VariableNamed(q.Variable)
	if q.Unit == "" {
		return e, nil
	}
	c := unit.ToSI(q.Unit, v.Unit)
	if c.SI != v.Unit {
		return e, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("%s: unit %s does not apply to %s", q, q.Unit, q.Variable), At: "probabilities",
			Why: "the unit of " + q.Variable + " is " + v.Unit, Fix: "give the limit in " + v.Unit + ", or omit the unit"}
	}
	// Round to 12 digits: 5 degC is 278.15 K, not 278.15000000000003.
	short := func(x float64) float64 {
		y, err := strconv.ParseFloat(strconv.FormatFloat(c.Scale*x+c.Offset, 'g', 12, 64), 64)
		if err != nil {
			return c.Scale*x + c.Offset
		}
		return y
	}
	if e.Relation.HasLower() {
		e.Lower = short(e.Lower)
	}
	if e.Relation.HasUpper() {
		e.Upper = short(e.Upper)
	}
	return e, nil
}
