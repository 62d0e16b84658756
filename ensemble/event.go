package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Relation says on which side of a limit the values of an event lie.
type Relation uint8

// The relations; the zero value is no event.
const (
	NoEvent Relation = iota
	Above            // more than Lower
	Below            // less than Upper
	Between          // Lower or more, and less than Upper
)

// String is the relation as names of fields have it.
func (r Relation) String() string { return [...]string{"", "above", "below", "between"}[r] }

// Event is that the value of a variable lies above or below a threshold, or between
// two. The limit that a relation does not need is 0.
//
// Unit: that of the variable, SI.
type Event struct {
	Relation     Relation
	Lower, Upper float64
}

// Threshold is the limit of an event that has one, and the upper one of one between two.
func (e Event) Threshold() float64 {
	if e.Relation == Above {
		return e.Lower
	}
	return e.Upper
}

// String prints "above 273.15" and "between 0 and 5".
func (e Event) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if e.Relation == Between {
		return "between " + num(e.Lower) + " and " + num(e.Upper)
	}
	return e.Relation.String() + " " + num(e.Threshold())
}

// Compare orders events by relation, then by limits.
func (e Event) Compare(o Event) int {
	return cmp.Or(cmp.Compare(e.Relation, o.Relation), cmp.Compare(e.Lower, o.Lower), cmp.Compare(e.Upper, o.Upper))
}

// VariableEvent is an event of a variable, as a person asks for its probability.
type VariableEvent struct {
	Variable string // short name
	Event    Event  // limits in Unit
	Unit     string // of the limits; empty: SI
}

var (
	oneSidedEvent  = regexp.MustCompile(`^([A-Za-z0-9_]+)\s*([<>])\s*(.+)$`)
	twoSidedEvent  = regexp.MustCompile(`^([^<>]+)<\s*([A-Za-z0-9_]+)\s*<\s*(.+)$`)
	numberWithUnit = regexp.MustCompile(`^([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*(\S.*)?$`)
)

// ParseVariableEvent reads "t2m>273.15", "2t < 0 degC" and "0degC<2t<5degC": a short name of
// the vocabulary or its identifier, and limits with or without a unit.
//
// Errors: if it is none of these, with what to write instead.
func ParseVariableEvent(s string) (VariableEvent, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "≤≥") || strings.Contains(s, "<=") || strings.Contains(s, ">=") {
		return VariableEvent{}, fmt.Errorf("%q: write > for >=, and < for <=: one value alone has no probability", s)
	}
	limit := func(text string) (v float64, unit string, err error) {
		m := numberWithUnit.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			return 0, "", fmt.Errorf("%q: %q is no number with a unit", s, strings.TrimSpace(text))
		}
		if v, err = strconv.ParseFloat(m[1], 64); err != nil || math.IsInf(v, 0) {
			return 0, "", fmt.Errorf("%q: %s is too large", s, m[1])
		}
		return v, strings.TrimSpace(m[2]), nil
	}
	if m := twoSidedEvent.FindStringSubmatch(s); m != nil {
		lower, u, err := limit(m[1])
		if err != nil {
			return VariableEvent{}, err
		}
		upper, unit, err := limit(m[3])
		if err != nil {
			return VariableEvent{}, err
		}
		if u != "" && u != unit {
			return VariableEvent{}, fmt.Errorf("%q: its limits are in %q and in %q", s, u, unit)
		}
		if lower >= upper {
			return VariableEvent{}, fmt.Errorf("%q: nothing lies between its limits", s)
		}
		return VariableEvent{ShortName(m[2]), Event{Between, lower, upper}, unit}, nil
	}
	m := oneSidedEvent.FindStringSubmatch(s)
	if m == nil {
		return VariableEvent{}, fmt.Errorf("%q is no event: write t2m>273.15, \"t2m<0 degC\" or 0degC<t2m<5degC", s)
	}
	v, unit, err := limit(m[3])
	if err != nil {
		return VariableEvent{}, err
	}
	q := VariableEvent{Variable: ShortName(m[1]), Event: Event{Relation: Above, Lower: v}, Unit: unit}
	if m[2] == "<" {
		q.Event = Event{Relation: Below, Upper: v}
	}
	return q, nil
}

// ShortName is the short name of a variable that is given by it or by its identifier.
func ShortName(word string) string {
	for _, v := range Variables {
		if v.Identifier == word {
			return v.Name
		}
	}
	return word
}

// MarshalText writes what ParseVariableEvent reads.
func (q VariableEvent) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (q *VariableEvent) UnmarshalText(text []byte) (err error) {
	*q, err = ParseVariableEvent(string(text))
	return err
}

// String prints what ParseVariableEvent reads.
func (q VariableEvent) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) + q.Unit }
	switch q.Event.Relation {
	case Above:
		return q.Variable + ">" + num(q.Event.Lower)
	case Below:
		return q.Variable + "<" + num(q.Event.Upper)
	}
	return num(q.Event.Lower) + "<" + q.Variable + "<" + num(q.Event.Upper)
}
