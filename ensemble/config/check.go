package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Check is a condition on a value; in a list, on every element. The zero value
// allows everything.
type Check struct {
	Text   string // as it stands in help and errors: "1 or more"
	ok     func(v any) bool
	names  []string       // the allowed words, for suggestions
	schema map[string]any // what JSON Schema can say of it
}

// AtLeast allows numbers from lo, and durations from lo hours.
func AtLeast(lo float64) Check {
	return Check{Text: number(lo) + " or more", ok: func(v any) bool { return value(v) >= lo }, schema: map[string]any{"minimum": lo}}
}

// Above allows numbers greater than lo.
func Above(lo float64) Check {
	return Check{Text: "more than " + number(lo), ok: func(v any) bool { return value(v) > lo }, schema: map[string]any{"exclusiveMinimum": lo}}
}

// Between allows numbers from lo to hi, both included.
func Between(lo, hi float64) Check {
	return Check{Text: number(lo) + " to " + number(hi), ok: func(v any) bool { return value(v) >= lo && value(v) <= hi },
		schema: map[string]any{"minimum": lo, "maximum": hi}}
}

// BetweenExclusive allows numbers between lo and hi, without the two.
func BetweenExclusive(lo, hi float64) Check {
	return Check{Text: fmt.Sprintf("more than %s and less than %s", number(lo), number(hi)),
		ok: func(v any) bool { return value(v) > lo && value(v) < hi }, schema: map[string]any{"exclusiveMinimum": lo, "exclusiveMaximum": hi}}
}

// BetweenHalfOpen allows numbers from lo up to, but not including, hi.
func BetweenHalfOpen(lo, hi float64) Check {
	return Check{Text: fmt.Sprintf("%s or more and less than %s", number(lo), number(hi)),
		ok: func(v any) bool { return value(v) >= lo && value(v) < hi }, schema: map[string]any{"minimum": lo, "exclusiveMaximum": hi}}
}

// OneOf allows the given words, or the given whole numbers.
func OneOf[T ~string](words ...T) Check {
	names, list := make([]string, len(words)), make([]any, len(words))
	for i, w := range words {
		names[i], list[i] = string(w), string(w)
		if v, err := strconv.Atoi(string(w)); err == nil {
			list[i] = v
		}
	}
	return Check{Text: "one of " + strings.Join(names, ", "), names: names, schema: map[string]any{"enum": list},
		ok: func(v any) bool { return slices.Contains(names, fmt.Sprint(v)) }}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// value is the number that a check compares: itself, or the hours of a duration.
func value(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case float64:
		return v
	case ensemble.Lead:
		return time.Duration(v).Hours()
	case time.Duration:
		return v.Hours()
	}
	panic(fmt.Sprintf("config: a range check on a %T", v))
}
