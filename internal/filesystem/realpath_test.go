package filesystem_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// TestRealPath: a path leads to one place, whatever links lead to it and to the working directory.
func TestRealPath(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "a", "b")
	links := filepath.Join(root, "links")
	if err := errors.Join(os.MkdirAll(below, 0o755), os.Mkdir(links, 0o755), os.Symlink("../a", filepath.Join(links, "to-a")), os.Symlink(below, filepath.Join(links, "to-b"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ working, path, want string }{
		{root, below, below}, {root, filepath.Join(links, "to-b"), below}, {root, "a/b", below}, {root, "links/to-a/b", below}, {root, "links/to-b/..", filepath.Join(root, "a")},
		{filepath.Join(links, "to-a"), ".", filepath.Join(root, "a")}, {filepath.Join(links, "to-a"), "b", below}, {filepath.Join(links, "to-b"), ".", below},
		{filepath.Join(links, "to-b"), "..", filepath.Join(root, "a")}, {filepath.Join(links, "to-b"), "../../links/to-a", filepath.Join(root, "a")},
	} {
		t.Chdir(c.working)
		if got, err := filesystem.RealPath(c.path); err != nil || got != c.want {
			t.Errorf("%s in %s is %s, %v; want %s", c.path, c.working, got, err, c.want)
		}
	}
	if _, err := filesystem.RealPath("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	gone := filepath.Join(root, "gone")
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if _, err := filesystem.RealPath("."); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a removed working directory: %v", err)
	}
}

// TestAbsolute: ".." at the beginning of a path leads above the target of a link, other paths keep their links, and no file has to exist.
func TestAbsolute(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, link := filepath.Join(root, "scratch", "project"), filepath.Join(root, "home", "project")
	if err := errors.Join(os.MkdirAll(project, 0o755), os.Mkdir(filepath.Join(root, "home"), 0o755), os.Symlink(project, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	for _, c := range []struct{ dir, path, want string }{
		{"", "../data", filepath.Join(root, "scratch", "data")}, {link, "..", filepath.Join(root, "scratch")}, {"", "a/../../data", filepath.Join(root, "scratch", "data")},
		{"", "", link}, {"", ".", link}, {"", "data", filepath.Join(link, "data")}, {"sub", "data", filepath.Join(link, "sub", "data")}, {link, "/a/../data", "/data"},
		{"", "..data", filepath.Join(link, "..data")}, {"none", "../data", filepath.Join(link, "data")},
	} {
		if got, err := filesystem.Absolute(c.dir, c.path); err != nil || got != c.want {
			t.Errorf("%q in %q is %q, %v; want %q", c.path, c.dir, got, err, c.want)
		}
	}
}
