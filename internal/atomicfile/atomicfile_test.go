package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestUmask: what is published has the permissions that the user's umask leaves.
func TestUmask(t *testing.T) {
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

// TestFailure: an error leaves the old content and nothing else.
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
