// Package directio reads files with direct I/O (O_DIRECT), which bypasses the page
// cache. It is for data that are read once, and for measuring disks.
package directio

import (
	"os"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Align is the required alignment of addresses, offsets and lengths of direct
// reads.
//
// Unit: bytes.
const Align = 4096

// Open opens a file for direct reads. direct is false if the system or file system
// does not support them; reads then use the page cache.
//
// Errors: those of os.OpenFile.
func Open(path string) (f filesystem.File, direct bool, err error) {
	return open(func(flag int) (filesystem.File, error) { return filesystem.OpenFile(path, flag, 0) })
}

// OpenIn is Open for a file below a root.
func OpenIn(root *os.Root, name string) (f filesystem.File, direct bool, err error) {
	return open(func(flag int) (filesystem.File, error) { return filesystem.OpenIn(root, name, flag, 0) })
}
