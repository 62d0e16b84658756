package terminal

import (
	"bytes"
	"io"
	"testing"
)

// TestScreen: text is printed above the line, which is drawn again, and removed at the end.
func TestScreen(t *testing.T) {
	var b bytes.Buffer
	s := NewScreen(&b)
	io.WriteString(s, "a\n")
	s.Show("")
	s.Show("train 1")
	io.WriteString(s, "b\n")
	s.Show("")
	s.Show("")
	if want := "a\n\r\x1b[Ktrain 1\r\x1b[Kb\ntrain 1\r\x1b[K"; b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
	if Is(s) || HasColour(s) || Paint(s, Red, "x") != "x" || Width(s) != 80 {
		t.Error("a buffer is no terminal")
	}
}

func TestTruncate(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"größer", 6, "größer"}, {"größer", 5, "größ~"}, {"a b", 3, "a b"}, {"a bc", 3, "a~"}, {"ab", 0, "~"}} {
		if got := Truncate(c.text, c.n); got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
