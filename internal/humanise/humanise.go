// Package humanise formats parts of messages for display.
package humanise

import (
	"fmt"
	"strings"
)

// Count formats a number with a noun and its regular plural: "1 rank", "2 ranks", "2 batches", "2 epochs".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "s") || strings.HasSuffix(one, "tch") {
		return fmt.Sprintf("%d %ses", n, one)
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Strings returns the texts of items.
func Strings[T fmt.Stringer](items []T) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = x.String()
	}
	return out
}

// And joins words by commas and a last "and": "1", "1 and 3", "1, 3 and 4".
func And(words []string) string {
	n := len(words) - 1
	if n < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n], ", ") + " and " + words[n]
}

// MaxListed is the maximum number of words that List prints.
const MaxListed = 10

// List joins words by commas. Of a long list it prints the first MaxListed and the
// number of the others.
func List(words []string) string {
	if n := len(words) - MaxListed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:MaxListed], ", "), n)
	}
	return strings.Join(words, ", ")
}

// Seconds formats an approximate duration.
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
