//go:build !linux

package coldfile

import "os"

// Align is what addresses, places and lengths of direct reads are multiples of.
const Align = 4096

// Open opens a file as os.Open does: there are no direct reads.
func Open(path string) (f *os.File, direct bool, err error) {
	f, err = os.Open(path)
	return f, false, err
}

// Forget does nothing.
func Forget(string) error { return nil }
