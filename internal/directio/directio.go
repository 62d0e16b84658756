// Package directio reads files from the disk and not through the page cache: for data that
// are read once, and to measure a disk.
package directio

import "os"

// Align is what addresses, places and lengths of direct reads are multiples of.
const Align = 4096

// Open opens a file for reads that go past the page cache. direct tells whether they do:
// some systems and file systems have none.
//
// Errors: those of os.OpenFile.
func Open(path string) (f *os.File, direct bool, err error) {
	return open(func(flag int) (*os.File, error) { return os.OpenFile(path, flag, 0) })
}

// OpenIn is Open of a file below a folder.
func OpenIn(root *os.Root, name string) (f *os.File, direct bool, err error) {
	return open(func(flag int) (*os.File, error) { return root.OpenFile(name, flag, 0) })
}
