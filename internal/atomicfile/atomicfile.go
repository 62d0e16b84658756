// Package atomicfile writes files that a reader sees whole or not at all: a
// temporary file in the same directory, fsync, rename, fsync of the directory.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// WriteFile writes data to path atomically.
//
// Errors: as Write.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write lets fill produce the content of path. On any error the old content of
// path, if there was one, is untouched and the temporary file is gone.
//
// Errors: those of fill and of the file system; exit.Create gives them a code.
func Write(path string, fill func(io.Writer) error) error {
	return Replace(path, func(tmp string) error {
		f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		if err := fill(f); err != nil {
			f.Close()
			return err
		}
		return f.Close()
	})
}

// Replace lets fill write to a temporary file by name, for writers that open
// files themselves (another process, a C library), and then puts that file in
// place of path. fill must leave the temporary file complete and closed.
func Replace(path string, fill func(tmp string) error) (err error) {
	dir := filepath.Dir(path)
	var f *os.File
	tmp, err := createUnique(filepath.Join(dir, "."+filepath.Base(path)+temporaryMark), func(name string) (err error) {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666) // less the umask
		return err
	})
	if err != nil {
		return fmt.Errorf("create beside %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			os.Remove(tmp)
		}
	}()
	if err = f.Close(); err != nil {
		return err
	}
	if err = fill(tmp); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = Sync(tmp); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err = os.Rename(tmp, path); err != nil {
		return fmt.Errorf("put %s in place: %w", path, err)
	}
	return Sync(dir)
}

// temporaryMark is in the names of temporary files and folders, behind a point and the name that
// they will have.
const temporaryMark = ".partial-"

// IsTemporary tells whether a name is that of a temporary file or folder. Nobody writes to it
// any more if its writer is dead.
func IsTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, temporaryMark)
}

// RemoveTemporary removes from a folder what processes left there that were killed while they wrote some files, of any name if
// none is given. It is for those who know that nobody writes them now. A folder that is not there has nothing.
func RemoveTemporary(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		of := func(name string) bool { return strings.HasPrefix(e.Name(), "."+name+temporaryMark) }
		if IsTemporary(e.Name()) && (len(names) == 0 || slices.ContainsFunc(names, of)) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// TempDir makes a new folder in dir whose name begins with prefix, with the
// permissions that the umask leaves, so that it can be renamed to be published.
//
// Errors: those of os.Mkdir.
func TempDir(dir, prefix string) (string, error) {
	return createUnique(filepath.Join(dir, prefix), func(name string) error { return os.Mkdir(name, 0o777) })
}

// createUnique tries names that begin with prefix until make does not find one there.
func createUnique(prefix string, make func(name string) error) (string, error) {
	for {
		name := prefix + strconv.FormatUint(uint64(rand.Uint32()), 36)
		if err := make(name); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// Sync makes what was written to a file, or renamed and removed in a folder, last
// through a power cut.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
