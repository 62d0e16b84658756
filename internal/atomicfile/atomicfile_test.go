package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// TestFault47Umask: published files have the permissions of the umask.
func TestFault47Umask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteFile(path, []byte("x")); err != nil {
		t.Fatal(err)
	}
	made, err := TempDir(dir, ".b-")
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, made: 0o700 | os.ModeDir} {
		if s, err := os.Stat(p); err != nil || s.Mode() != want {
			t.Errorf("%s has mode %v, want %v (%v)", p, s.Mode(), want, err)
		}
	}
}

// TestFailure: an error leaves the old content and no temporary file.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	err := Write(path, func(w io.Writer) error {
		_, err := w.Write([]byte("ne"))
		return errors.Join(err, full)
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	text, err := os.ReadFile(path)
	if names, _ := os.ReadDir(dir); err != nil || string(text) != "old" || len(names) != 1 {
		t.Errorf("%q, %d files, %v; want \"old\" alone", text, len(names), err)
	}
}

// TestSweep: only temporary files of the given names are removed.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	left := func() string {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " ")
	}
	for _, name := range []string{".a.partial-1", ".b.partial-2", ".ab.partial-3/x", "a", ".hidden", "c.partial-4"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		names []string
		want  string
	}{{[]string{"a", "none"}, ".ab.partial-3 .b.partial-2 .hidden a c.partial-4"}, {nil, ".hidden a c.partial-4"}} {
		if err := RemoveTemporary(dir, c.names...); err != nil || left() != c.want {
			t.Errorf("%q: %v, left %q, want %q", c.names, err, left(), c.want)
		}
	}
	if err := RemoveTemporary(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("no folder: %v", err)
	}
}

// An error of writing that an encoder ignores is not lost, whether the system is called at once or at the end: the old file
// stays.
func TestIgnoredErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4, 2 * writeSize} {
		_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Write}, Err: syscall.ENOSPC})
		err := Write(path, func(w io.Writer) error {
			w.Write(make([]byte, size))
			w.Write([]byte("kept"))
			return nil
		})
		restore()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes: %v", size, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
			t.Errorf("%d bytes: %q, %v", size, got, err)
		}
	}
}

// Values that an encoder writes one by one do not each call the system.
func TestFewWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	s, restore := faultfs.Use(faultfs.Fault{Of: []faultfs.Kind{faultfs.Write}})
	defer restore()
	err := Write(path, func(w io.Writer) error {
		for range writeSize + 1 {
			if _, err := w.Write([]byte{1}); err != nil {
				return err
			}
		}
		return nil
	})
	if got, e := os.ReadFile(path); err != nil || e != nil || len(got) != writeSize+1 || s.Count() != 2 {
		t.Errorf("%v, %v: %d bytes in %d writes, want %d in 2", err, e, len(got), s.Count(), writeSize+1)
	}
}
