// Package terminal writes to terminals: their width, colours, and one line that is
// replaced while other output scrolls above it.
package terminal

import (
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// ranks are variables that MPI launchers set. They give each rank a pseudo terminal, whose output goes elsewhere.
var ranks = []string{"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}

// Is reports whether a writer is a terminal that can move its cursor. Under an MPI launcher none is.
func Is(w io.Writer) bool {
	if s, is := w.(*Screen); is {
		return s.terminal
	}
	f, is := w.(*os.File)
	launched := slices.ContainsFunc(ranks, func(name string) bool { return os.Getenv(name) != "" })
	return is && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" && !launched
}

// defaultWidth is the width in columns if the terminal does not state it.
const defaultWidth = 80

// Width returns the number of columns of a terminal.
func Width(w io.Writer) int {
	if s, is := w.(*Screen); is {
		return Width(s.w)
	}
	if f, is := w.(*os.File); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return defaultWidth
}

// Style is the emphasis of text.
type Style string

// The styles.
const (
	Bold   Style = "1"
	Red    Style = "1;31"
	Yellow Style = "33"
)

// HasColour reports whether text for w may have a style: on terminals, unless NO_COLOR is set.
//
// Source: https://no-color.org.
func HasColour(w io.Writer) bool { return os.Getenv("NO_COLOR") == "" && Is(w) }

// Paint returns text in a style if w has colours.
func Paint(w io.Writer, s Style, text string) string {
	if text == "" || !HasColour(w) {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Screen is a writer with a line at its end that Show replaces. Other text is printed
// above that line. It may be used concurrently.
type Screen struct {
	terminal bool
	mu       sync.Mutex
	w        io.Writer
	line     string
}

// NewScreen returns a Screen that writes to w.
func NewScreen(w io.Writer) *Screen { return &Screen{w: w, terminal: Is(w)} }

// clear returns to the beginning of the line and clears it.
const clear = "\r\x1b[K"

// Write prints text above the line. Text should end with a newline.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.line == "" {
		return s.w.Write(p)
	}
	_, err := io.WriteString(s.w, clear+string(p)+s.line)
	return len(p), err
}

// Show replaces the line; "" removes it.
func (s *Screen) Show(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if line == "" && s.line == "" {
		return
	}
	s.line = line
	_, _ = io.WriteString(s.w, clear+line) // a terminal that is gone shows nothing
}

// Truncate shortens text to a number of columns.
func Truncate(text string, columns int) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return strings.TrimRight(string([]rune(text)[:max(0, columns-1)]), " ") + "~"
}
