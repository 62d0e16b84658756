package op

import (
	"math"
	"testing"
)

// TestIsTwoFour: quads are neighbouring input channels at one result channel and one tap.
func TestIsTwoFour(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name string
		w    []float32
		s    Shape
		want bool
	}{
		{"two of four", []float32{1, 0, 0, 2, 0, 3, 4, 0}, Shape{1, 8, 1}, true},
		{"three of four", []float32{1, 0, 0, 2, 0, 3, 4, 5}, Shape{1, 8, 1}, false},
		{"NaN", []float32{1, nan, 0, 2}, Shape{1, 4, 1}, false},
		{"across quads", []float32{0, 0, 1, 2, 3, 4, 0, 0}, Shape{1, 8, 1}, true},
		{"at other taps", []float32{1, 2, 0, 0, 3, 0, 0, 4}, Shape{1, 4, 1, 1, 2}, true},
		{"at one tap", []float32{1, 0, 2, 0, 3, 0, 0, 4}, Shape{1, 4, 1, 1, 2}, false},
		{"at other results", []float32{1, 2, 0, 0, 0, 3, 4, 0}, Shape{2, 4, 1}, true},
		{"three remain", []float32{1, 2, 0, 0, 0, 3, 4}, Shape{1, 7, 1}, true},
		{"three of three", []float32{1, 2, 0, 0, 5, 3, 4}, Shape{1, 7, 1}, false},
		{"less than a quad", []float32{1, 2}, Shape{1, 2, 1}, false},
		{"no filter", []float32{0, 0, 0, 0}, Shape{1, 4}, false},
	} {
		if got := IsTwoFour(c.w, c.s); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
