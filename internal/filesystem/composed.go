package filesystem

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ReadFile is os.ReadFile.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := 0 // of files such as those of /proc it is 0 or wrong: the end of the file counts
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() < 1<<30 {
		size = int(st.Size())
	}
	out := make([]byte, 0, max(size+1, 512))
	for {
		n, err := f.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if len(out) == cap(out) {
			out = append(out, 0)[:len(out)]
		}
	}
}

// WriteFile is os.WriteFile: not atomic and not synced. See internal/atomicfile.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	f, err := OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// MkdirAll is os.MkdirAll. The new folders are not synced.
func MkdirAll(name string, perm fs.FileMode) error {
	if st, err := Stat(name); err == nil {
		if st.IsDir() {
			return nil
		}
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	}
	if parent := filepath.Dir(name); parent != name {
		if err := MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	err := Mkdir(name, perm)
	if errors.Is(err, fs.ErrExist) { // made by another process since, or a path such as "a/."
		if st, e := Stat(name); e == nil && st.IsDir() {
			return nil
		}
	}
	return err
}

// CreateTemp is os.CreateTemp.
func CreateTemp(dir, pattern string) (f File, err error) {
	err = unique(dir, pattern, func(name string) (err error) {
		f, err = OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	return f, err
}

// MkdirTemp is os.MkdirTemp.
func MkdirTemp(dir, pattern string) (path string, err error) {
	err = unique(dir, pattern, func(name string) error {
		path = name
		return Mkdir(name, 0o700)
	})
	if err != nil {
		return "", err
	}
	return path, nil
}

// unique calls make with random names in dir ("": the system's folder of temporary files) until one does not exist. The
// random part replaces the last * of the pattern, or follows it.
func unique(dir, pattern string, make func(name string) error) error {
	if dir == "" {
		dir = os.TempDir()
	}
	before, after := pattern, ""
	if i := strings.LastIndexByte(pattern, '*'); i >= 0 {
		before, after = pattern[:i], pattern[i+1:]
	}
	for {
		err := make(filepath.Join(dir, before+strconv.FormatUint(rand.Uint64(), 36)+after))
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// RemoveEach is RemoveAll by single operations of s: first the content of a folder, sorted by name, then the folder.
func RemoveEach(s System, name string) error {
	st, err := s.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.IsDir() {
		entries, err := s.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := RemoveEach(s, filepath.Join(name, e.Name())); err != nil {
				return err
			}
		}
	}
	if err := s.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
