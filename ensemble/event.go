package ensemble

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Relation is the position of the values of an event relative to its limits.
type Relation uint8

// The relations; the zero value is no event.
const (
	NoEvent Relation = iota
	Above            // value > Lower
	Below            // value < Upper
	Between          // Lower ≤ value < Upper
	AtLeast          // value ≥ Lower; products of other programs
	AtMost           // value ≤ Upper; products of other programs
)

// String is the relation as part of the names of output fields.
func (r Relation) String() string {
	return [...]string{"", "above", "below", "between", "at least", "at most"}[r]
}

// HasLower reports whether events of the relation use the lower limit.
func (r Relation) HasLower() bool { return r == Above || r == AtLeast || r == Between }

// HasUpper reports whether events of the relation use the upper limit.
func (r Relation) HasUpper() bool { return r == Below || r == AtMost || r == Between }

// Event is that the value of a variable lies above or below a threshold, or between two. A
// limit that the relation does not use is 0.
//
// Unit: that of the variable, SI.
type Event struct {
	Relation     Relation
	Lower, Upper float64
}

// Threshold is the limit of a one-sided event, and the upper limit of a two-sided one.
func (e Event) Threshold() float64 {
	if !e.Relation.HasUpper() {
		return e.Lower
	}
	return e.Upper
}

// String formats the event: "above 273.15", "between 0 and 5".
func (e Event) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	if e.Relation == Between {
		return "between " + num(e.Lower) + " and " + num(e.Upper)
	}
	return e.Relation.String() + " " + num(e.Threshold())
}

// AboveLimit returns the largest float32 value that counts as equal to a limit. Values are compared
// in the precision of the data, float32: a value that a file states as 0.1 is neither above nor
// below 0.1, also if it is rounded otherwise by a conversion to SI units.
func AboveLimit(limit float64) float64 {
	return float64(math.Nextafter32(float32(limit), float32(math.Inf(1))))
}

// belowLimit is the smallest float32 value that counts as equal to a limit.
func belowLimit(limit float64) float64 {
	return float64(math.Nextafter32(float32(limit), float32(math.Inf(-1))))
}

// Exceedance returns the threshold such that a value is above it, as by AboveLimit, if the event occurs, or, with
// complement, if it does not. For AtLeast it is beneath the limit, which counts. ok is false for events of two limits.
func (e Event) Exceedance() (threshold float64, complement, ok bool) {
	switch e.Relation {
	case Above:
		return e.Lower, false, true
	case AtLeast:
		x := float32(e.Lower)
		for range 3 { // to belowLimit, to the value below it, and by the step that AboveLimit adds
			x = math.Nextafter32(x, float32(math.Inf(-1)))
		}
		return float64(x), false, true
	case Below, AtMost:
		return e.Upper, true, true
	}
	return 0, false, false
}

// Occurs reports whether a value lies in the event, compared as by AboveLimit. Missing: false for NaN.
func (e Event) Occurs(v float64) bool {
	switch e.Relation {
	case Above:
		return v > AboveLimit(e.Lower)
	case Below:
		return v < belowLimit(e.Upper)
	case AtLeast:
		return v >= belowLimit(e.Lower)
	case AtMost:
		return v <= AboveLimit(e.Upper)
	}
	return v >= belowLimit(e.Lower) && v < belowLimit(e.Upper)
}

// Compare orders events by relation, then by limits.
func (e Event) Compare(o Event) int {
	return cmp.Or(cmp.Compare(e.Relation, o.Relation), cmp.Compare(e.Lower, o.Lower), cmp.Compare(e.Upper, o.Upper))
}

// VariableEvent is an event of a variable, of all its levels or of one, whose probability is requested, such as 2t<0 degC.
type VariableEvent struct {
	VariableAt
	Event Event  // limits in Unit
	Unit  string // unit of the limits; "": SI
}

// EventForms lists the forms that ParseVariableEvent reads, for messages.
const EventForms = "t2m>273.15, t850>280, \"t2m<0 degC\" or 0degC<t2m<5degC"

// The forms of a VariableEvent, and a number with a unit.
var (
	oneSidedEvent  = regexp.MustCompile(`^([^<>=\s]+)\s*([<>])\s*(.+)$`)
	twoSidedEvent  = regexp.MustCompile(`^([^<>]+)<\s*([^<>=\s]+)\s*<\s*(.+)$`)
	numberWithUnit = regexp.MustCompile(`^([-+]?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*(\S.*)?$`)
)

// ParseVariableEvent reads "t2m>273.15", "t850 > 7 degC", "2t < 0 degC" and "0degC<2t<5degC": a variable as ParseVariableAt
// reads it, and limits with or without a unit.
//
// Errors: another form, with the correct one.
func ParseVariableEvent(s string) (VariableEvent, error) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "≤≥") || strings.Contains(s, "<=") || strings.Contains(s, ">=") {
		return VariableEvent{}, fmt.Errorf("%q: write > for >= and < for <=; a single value has probability 0", s)
	}
	limit := func(text string) (v float64, unit string, err error) {
		m := numberWithUnit.FindStringSubmatch(strings.TrimSpace(text))
		if m == nil {
			return 0, "", fmt.Errorf("%q: %q is not a number with a unit", s, strings.TrimSpace(text))
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
			return VariableEvent{}, fmt.Errorf("%q: the limits have different units, %q and %q", s, u, unit)
		}
		if lower >= upper {
			return VariableEvent{}, fmt.Errorf("%q: the lower limit must be less than the upper one", s)
		}
		at, err := ParseVariableAt(m[2])
		return VariableEvent{at, Event{Between, lower, upper}, unit}, err
	}
	m := oneSidedEvent.FindStringSubmatch(s)
	if m == nil {
		return VariableEvent{}, fmt.Errorf("%q is not an event: write %s", s, EventForms)
	}
	v, unit, err := limit(m[3])
	if err != nil {
		return VariableEvent{}, err
	}
	at, err := ParseVariableAt(m[1])
	q := VariableEvent{at, Event{Relation: Above, Lower: v}, unit}
	if m[2] == "<" {
		q.Event = Event{Relation: Below, Upper: v}
	}
	return q, err
}

// ShortName returns the short name of a variable for its short name or identifier; other words are returned unchanged.
func ShortName(word string) string {
	for _, v := range Variables {
		if v.Identifier == word {
			return v.Name
		}
	}
	return word
}

// MarshalText encodes the form that ParseVariableEvent reads.
func (q VariableEvent) MarshalText() ([]byte, error) { return []byte(q.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (q *VariableEvent) UnmarshalText(text []byte) (err error) {
	*q, err = ParseVariableEvent(string(text))
	return err
}

// String is the form that ParseVariableEvent reads.
func (q VariableEvent) String() string {
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) + q.Unit }
	switch q.Event.Relation {
	case Above:
		return q.VariableAt.String() + ">" + num(q.Event.Lower)
	case Below:
		return q.VariableAt.String() + "<" + num(q.Event.Upper)
	}
	return num(q.Event.Lower) + "<" + q.VariableAt.String() + "<" + num(q.Event.Upper)
}
