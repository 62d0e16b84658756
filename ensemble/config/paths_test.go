package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPathAboveLink: a path that leads above the folder of its file, which was reached by a link, leads to what the system finds there;
// the cases are those of filesystem.Absolute.
func TestPathAboveLink(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"../data/*.nc": filepath.Join(filepath.Dir(target), "data", "*.nc"), "data": filepath.Join(link, "data")} {
		if got, err := resolvePath(path, link); err != nil || string(got) != want {
			t.Errorf("%q is %q, %v; want %q", path, got, err, want)
		}
	}
}
