package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config/schema"
)

// AtLeast allows numbers ≥ lo, and durations of at least lo hours.
func AtLeast(lo float64) schema.Check {
	return schema.Check{Text: number(lo) + " or more", Allows: func(v any) bool { return value(v) >= lo }, JSON: map[string]any{"minimum": lo}}
}

// Above allows numbers > lo.
func Above(lo float64) schema.Check {
	return schema.Check{Text: "more than " + number(lo), Allows: func(v any) bool { return value(v) > lo }, JSON: map[string]any{"exclusiveMinimum": lo}}
}

// Between allows numbers in [lo, hi].
func Between(lo, hi float64) schema.Check {
	return schema.Check{Text: number(lo) + " to " + number(hi), Allows: func(v any) bool { return value(v) >= lo && value(v) <= hi },
		JSON: map[string]any{"minimum": lo, "maximum": hi}}
}

// BetweenExclusive allows numbers in the open interval (lo, hi).
func BetweenExclusive(lo, hi float64) schema.Check {
	return schema.Check{Text: fmt.Sprintf("more than %s and less than %s", number(lo), number(hi)),
		Allows: func(v any) bool { return value(v) > lo && value(v) < hi }, JSON: map[string]any{"exclusiveMinimum": lo, "exclusiveMaximum": hi}}
}

// BetweenHalfOpen allows numbers in the half-open interval [lo, hi).
func BetweenHalfOpen(lo, hi float64) schema.Check {
	return schema.Check{Text: fmt.Sprintf("%s or more and less than %s", number(lo), number(hi)),
		Allows: func(v any) bool { return value(v) >= lo && value(v) < hi }, JSON: map[string]any{"minimum": lo, "exclusiveMaximum": hi}}
}

// OneOf allows the given words or whole numbers.
func OneOf[T ~string](words ...T) schema.Check {
	names, list := make([]string, len(words)), make([]any, len(words))
	for i, w := range words {
		names[i], list[i] = string(w), string(w)
		if v, err := strconv.Atoi(string(w)); err == nil {
			list[i] = v
		}
	}
	return schema.Check{Text: "one of " + strings.Join(names, ", "), Words: names, JSON: map[string]any{"enum": list},
		Allows: func(v any) bool { return slices.Contains(names, fmt.Sprint(v)) }}
}

// number formats a bound of a range.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// value is the number that range checks compare: the number itself, or a duration in hours. It
// panics for types without range checks, as the schema is at fault.
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
