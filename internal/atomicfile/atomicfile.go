// Package atomicfile writes files atomically: a reader sees the old or the new
// content, never a part. It writes a temporary file in the same directory, syncs
// it, renames it and syncs the directory.
package atomicfile

import (
	"bufio"
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

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// WriteFile writes data to path atomically.
//
// Errors: those of Write.
func WriteFile(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write replaces the content of path by what fill writes. On any error, also one of writing that fill ignores, the old
// content, if any, is unchanged and the temporary file is removed.
//
// Errors: those of fill and of the file system; the exit package gives them a code.
func Write(path string, fill func(io.Writer) error) error {
	return Replace(path, func(tmp string) error {
		f, err := filesystem.OpenFile(tmp, os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(f, writeSize)
		if err := fill(w); err != nil {
			f.Close()
			return err
		}
		return errors.Join(w.Flush(), f.Close())
	})
}

// writeSize is the number of bytes that Write collects for one call of the system: some encoders write values one by one. The
// buffer also keeps the first error of writing, for a fill that ignores it.
const writeSize = 32 << 10

// Replace lets fill write to a temporary file by name and renames it to path. It is
// for writers that open files themselves, such as another process or a C library.
// fill must complete and close the file.
func Replace(path string, fill func(tmp string) error) (err error) {
	dir := filepath.Dir(path)
	var f filesystem.File
	tmp, err := createUnique(filepath.Join(dir, "."+filepath.Base(path)+temporaryMark), func(name string) (err error) {
		f, err = filesystem.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666) // subject to the umask
		return err
	})
	if err != nil {
		return fmt.Errorf("create beside %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			filesystem.Remove(tmp)
		}
	}()
	if err = f.Close(); err != nil {
		return err
	}
	if err = fill(tmp); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = sync(tmp); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err = filesystem.Rename(tmp, path); err != nil {
		return fmt.Errorf("put %s in place: %w", path, err)
	}
	return filesystem.SyncDir(dir)
}

// temporaryMark is part of the names of temporary files and folders:
// ".NAME.partial-RANDOM".
const temporaryMark = ".partial-"

// IsTemporary reports whether a name is that of a temporary file or folder. If its
// writer is dead, it can be removed.
func IsTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && strings.Contains(name, temporaryMark)
}

// RemoveTemporary removes temporary files and folders that killed processes left in
// a folder. names selects the files that they were to become; none means all. The
// caller must ensure that no process is writing them. A missing folder is no error.
func RemoveTemporary(dir string, names ...string) error {
	entries, err := filesystem.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		of := func(name string) bool { return strings.HasPrefix(e.Name(), "."+name+temporaryMark) }
		if IsTemporary(e.Name()) && (len(names) == 0 || slices.ContainsFunc(names, of)) {
			err = errors.Join(err, filesystem.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// TempDir creates a new folder in dir whose name starts with prefix. Its
// permissions follow the umask, so that it can be published by renaming.
//
// Errors: those of os.Mkdir.
func TempDir(dir, prefix string) (string, error) {
	return createUnique(filepath.Join(dir, prefix), func(name string) error { return filesystem.Mkdir(name, 0o777) })
}

// ReplaceDir gives a complete folder a name beside it, in one step, and makes that durable. The folder that had this
// name gets that of the other one, for the caller to remove.
//
// Errors: errors.ErrUnsupported if there is one and the file system cannot exchange names.
func ReplaceDir(tmp, dir string) error {
	_, err := filesystem.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = filesystem.Rename(tmp, dir)
	case err == nil:
		err = filesystem.Exchange(tmp, dir)
	}
	if err != nil {
		return err
	}
	return filesystem.SyncDir(filepath.Dir(dir))
}

// createUnique calls make with random names that start with prefix until one does
// not exist yet.
func createUnique(prefix string, make func(name string) error) (string, error) {
	for {
		name := prefix + strconv.FormatUint(uint64(rand.Uint32()), 36)
		if err := make(name); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// sync flushes a file to the disk, so that its content survives a power failure.
func sync(path string) error {
	f, err := filesystem.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
