//go:build !linux

package directio

import "os"

// open opens normally: there is no O_DIRECT.
func open(as func(flag int) (*os.File, error)) (f *os.File, direct bool, err error) {
	f, err = as(os.O_RDONLY)
	return f, false, err
}

// Forget does nothing on this system.
func Forget(string) error { return nil }
