package filesystem_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// each runs a test on the operating system and on one that removes folders by single operations.
func each(t *testing.T, test func(t *testing.T, dir string)) {
	for name, s := range map[string]filesystem.System{"operating system": filesystem.OS{}, "by single operations": single{}} {
		t.Run(name, func(t *testing.T) {
			defer filesystem.Replace(s)()
			test(t, t.TempDir())
		})
	}
}

// single removes folders by RemoveEach.
type single struct{ filesystem.OS }

func (s single) RemoveAll(name string) error { return filesystem.RemoveEach(s, name) }

func TestReadAndWriteFile(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		for _, size := range []int{0, 1, 511, 512, 513, 100_000} {
			path, want := filepath.Join(dir, "f"), bytes.Repeat([]byte{'x'}, size)
			if err := filesystem.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := filesystem.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes: read %d, %v", size, len(got), err)
			}
		}
		if _, err := filesystem.ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if f, err := filesystem.Open(filepath.Join(dir, "none")); f != nil || err == nil {
			t.Errorf("opened a missing file: %v, %v", f, err)
		}
	})
}

func TestMkdirAll(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		for range 2 {
			if err := filesystem.MkdirAll(filepath.Join(dir, "a", "b", "c"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(dir, "file")
		if err := filesystem.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, filepath.Join(file, "below")} {
			if err := filesystem.MkdirAll(path, 0o755); !errors.Is(err, unix.ENOTDIR) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}

func TestTemporaryNames(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		f, err := filesystem.CreateTemp(dir, ".a-*.b")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if name := filepath.Base(f.Name()); !strings.HasPrefix(name, ".a-") || !strings.HasSuffix(name, ".b") || len(name) < 8 {
			t.Errorf("name %s", name)
		}
		one, err := filesystem.MkdirTemp(dir, "d-")
		if err != nil {
			t.Fatal(err)
		}
		if two, err := filesystem.MkdirTemp(dir, "d-"); err != nil || two == one {
			t.Errorf("%s twice, %v", two, err)
		}
		if _, err := filesystem.MkdirTemp(filepath.Join(dir, "none"), "d-"); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.Mkdir(a, 0o755), os.WriteFile(filepath.Join(a, "in-a"), nil, 0o644), os.WriteFile(b, []byte("b"), 0o644)); err != nil {
		t.Fatal(err)
	}
	err := filesystem.Exchange(a, b)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(a); err != nil || string(got) != "b" {
		t.Errorf("a holds %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(b, "in-a")); err != nil {
		t.Error(err)
	}
	if err := filesystem.Exchange(a, filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exchange with a missing file: %v", err)
	}
}

func TestRemoveAll(t *testing.T) {
	each(t, func(t *testing.T, dir string) {
		outside := filepath.Join(dir, "outside")
		tree := filepath.Join(dir, "tree")
		if err := errors.Join(os.MkdirAll(filepath.Join(tree, "x", "y"), 0o755), os.WriteFile(filepath.Join(tree, "x", "f"), nil, 0o644),
			os.Mkdir(outside, 0o755), os.WriteFile(filepath.Join(outside, "kept"), nil, 0o644), os.Symlink(outside, filepath.Join(tree, "link"))); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it does not exist
			if err := filesystem.RemoveAll(tree); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
			t.Errorf("a link was followed: %v", err)
		}
	})
}

func TestOpenInStaysBelowTheRoot(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "root"), 0o755), os.WriteFile(filepath.Join(dir, "secret"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "root", "f"), []byte("in"), 0o644), os.Symlink("../secret", filepath.Join(dir, "root", "link"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(filepath.Join(dir, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	f, err := filesystem.OpenIn(root, "f", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f, err := filesystem.OpenIn(root, "link", os.O_RDONLY, 0); err == nil || f != nil {
		t.Error("a link out of the root was followed")
	}
}

func TestFlock(t *testing.T) {
	dir := t.TempDir()
	open := func() filesystem.File {
		f, err := filesystem.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first, second := open(), open()
	if err := filesystem.Flock(first, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if err := filesystem.Flock(second, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		t.Errorf("locked twice: %v", err)
	}
}
