// Package humanise makes parts of messages.
package humanise

import (
	"fmt"
	"strings"
)

// Count is a number of things with a regular plural: "1 rank", "2 ranks".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Strings are the texts of items.
func Strings[T fmt.Stringer](items []T) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = x.String()
	}
	return out
}

// MaxListed bounds what List names.
const MaxListed = 10

// List joins words, of a long list the first MaxListed and how many more there are.
func List(words []string) string {
	if n := len(words) - MaxListed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:MaxListed], ", "), n)
	}
	return strings.Join(words, ", ")
}

// Seconds is a time that is only known roughly.
func Seconds(s float64) string {
	switch {
	case s >= 2*86400:
		return fmt.Sprintf("%.1f days", s/86400)
	case s >= 2*3600:
		return fmt.Sprintf("%.1f h", s/3600)
	case s >= 120:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.3g s", s)
}
