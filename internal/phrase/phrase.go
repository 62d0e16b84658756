// Package phrase makes parts of messages.
package phrase

import "fmt"

// Count is a number of things with a regular plural: "1 rank", "2 ranks".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Words are the texts of items.
func Words[T fmt.Stringer](items []T) []string {
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = x.String()
	}
	return out
}
