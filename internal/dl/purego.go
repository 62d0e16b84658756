//go:build !cgo || !linux

package dl

import (
	"errors"
	"unsafe"
)

// errPure is the loader's message in a program built without cgo.
var errPure = errors.New("this program was built without cgo and cannot open shared libraries")

// Library is an opened shared library; none can be opened without cgo.
type Library struct{}

// Open always fails without cgo.
func Open(names ...string) (*Library, error) {
	return nil, &NotFoundError{Names: names, Reasons: []string{errPure.Error()}}
}

// OpenGlobal always fails without cgo.
func OpenGlobal(names ...string) (*Library, error) { return Open(names...) }

// Path is empty without cgo.
func (l *Library) Path() string { return "" }

// Handle is nil without cgo.
func (l *Library) Handle() unsafe.Pointer { return nil }

// Symbol always fails without cgo.
func (l *Library) Symbol(string) (unsafe.Pointer, error) { return nil, ErrNoSymbol }

// Bind always fails without cgo.
func (l *Library) Bind(string, []unsafe.Pointer) error { return ErrNoSymbol }

// Setenv always fails without cgo: no C library would read it.
func Setenv(string, string) (bool, error) { return false, errPure }
