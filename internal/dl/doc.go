// Package dl opens shared libraries at run time, so that one program starts
// and works on machines that lack them.
//
// A library is asked for by several file names (its versions, newest wish
// first); the first that opens is taken. When none opens the error lists every
// name tried with the reason the loader gave, and the places it searches.
package dl

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNotFound marks a library of which no name could be opened.
var ErrNotFound = errors.New("shared library not found")

// ErrNoSymbol marks a symbol that an opened library does not export.
var ErrNoSymbol = errors.New("symbol not found")

// NotFoundError says which file names were tried and what the loader answered.
type NotFoundError struct {
	Names   []string // as given to Open
	Reasons []string // the loader's message for each name
}

// Error lists the names, the reasons and the places searched.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "open %s: ", strings.Join(e.Names, " or "))
	for i, r := range e.Reasons {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(r)
	}
	fmt.Fprintf(&b, " (searched: %s)", Searched())
	return b.String()
}

// Unwrap gives ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// Searched describes where the loader looks for a bare file name.
func Searched() string {
	places := "the loader's cache (ldconfig), /lib, /usr/lib"
	if p := os.Getenv("LD_LIBRARY_PATH"); p != "" {
		places = "LD_LIBRARY_PATH=" + p + ", " + places
	}
	return places
}
