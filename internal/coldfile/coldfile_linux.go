package coldfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Align is what addresses, places and lengths of direct reads are multiples of.
const Align = 4096

// Open opens a file for reads that go past the page cache. direct tells whether they do:
// some file systems have none.
func Open(path string) (f *os.File, direct bool, err error) {
	if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0); errors.Is(err, unix.EINVAL) {
		f, err = os.Open(path)
		return f, false, err
	}
	return f, true, err
}

// Forget drops a file from the page cache.
func Forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // what is not written yet stays
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
