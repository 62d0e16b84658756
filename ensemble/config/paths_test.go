package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestPathAboveLink: a path that leads above a folder that was reached by a link leads to what the system and other programs find there.
func TestPathAboveLink(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	project, link := filepath.Join(root, "scratch", "project"), filepath.Join(root, "home", "project")
	if err := errors.Join(os.MkdirAll(project, 0o755), os.Mkdir(filepath.Join(root, "home"), 0o755), os.Symlink(project, link)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(link)
	for _, c := range []struct{ path, dir, want string }{
		{"../data", link, filepath.Join(root, "scratch", "data")}, {"../data/*.nc", ".", filepath.Join(root, "scratch", "data", "*.nc")}, {"a/../../data", "", filepath.Join(root, "scratch", "data")},
		{"data", link, filepath.Join(link, "data")}, {"/data", link, "/data"}, {"../data", "none", filepath.Join(link, "data")},
	} {
		if got, err := resolvePath(c.path, c.dir); err != nil || string(got) != c.want {
			t.Errorf("%q in %q is %q, %v; want %q", c.path, c.dir, got, err, c.want)
		}
	}
}
