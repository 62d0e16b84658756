// Package dl opens shared libraries at run time, so that one program also starts on
// machines without them.
//
// A library is requested by several file names, its versions, in order of
// preference. The first that opens is used. If none opens, the error lists every
// name with the loader's message, and the directories searched.
package dl

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrNotFound marks a library that could not be opened under any name.
var ErrNotFound = errors.New("shared library not found")

// ErrNoSymbol marks a symbol that an opened library does not export.
var ErrNoSymbol = errors.New("symbol not found")

// NotFoundError lists the file names tried and the loader's messages.
type NotFoundError struct {
	Names   []string // as given to Open
	Reasons []string // the loader's message for each name
}

// Error lists the names, the messages and the directories searched.
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

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// Searched describes where the loader searches for a bare file name.
func Searched() string {
	places := "the loader's cache (ldconfig), /lib, /usr/lib"
	if p := os.Getenv("LD_LIBRARY_PATH"); p != "" {
		places = "LD_LIBRARY_PATH=" + p + ", " + places
	}
	return places
}
