//go:build !linux

package directio

import (
	"os"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// open opens normally: there is no O_DIRECT.
func open(as func(flag int) (filesystem.File, error)) (f filesystem.File, direct bool, err error) {
	f, err = as(os.O_RDONLY)
	return f, false, err
}

// DropCache does nothing on this system.
func DropCache(string) error { return nil }
