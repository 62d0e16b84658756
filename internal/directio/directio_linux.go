package directio

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// open tries O_DIRECT and falls back to a normal open.
func open(as func(flag int) (filesystem.File, error)) (f filesystem.File, direct bool, err error) {
	if f, err = as(os.O_RDONLY | unix.O_DIRECT); errors.Is(err, unix.EINVAL) {
		f, err = as(os.O_RDONLY)
		return f, false, err
	}
	return f, true, err
}

// DropCache removes a file from the page cache.
func DropCache(path string) error {
	f, err := filesystem.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // dirty pages would stay in the cache
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
