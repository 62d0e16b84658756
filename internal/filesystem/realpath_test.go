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
