package terminal

import (
	"bytes"
	"io"
	"os"
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

// TestIs: what is a terminal, and what has colours.
func TestIs(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("skipped: no pseudo terminal: ", err)
	}
	defer f.Close()
	for _, c := range []struct {
		name, value  string
		is, coloured bool
	}{{"TERM", "xterm", true, true}, {"TERM", "dumb", false, false}, {"NO_COLOR", "1", true, false}, {"OMPI_COMM_WORLD_RANK", "0", false, false}, {"PMIX_RANK", "0", false, false}} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			for _, name := range append([]string{"NO_COLOR"}, ranks...) {
				t.Setenv(name, "")
			}
			t.Setenv("TERM", "xterm")
			t.Setenv(c.name, c.value)
			for _, w := range []io.Writer{f, NewScreen(f)} {
				if Is(w) != c.is || HasColour(w) != c.coloured {
					t.Errorf("%T: terminal %v, colours %v", w, Is(w), HasColour(w))
				}
			}
			if got := Paint(f, Bold, "x"); (got == "\x1b[1mx\x1b[0m") != c.coloured {
				t.Errorf("painted %q", got)
			}
		})
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
