package dirglob

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// Brackets and stars of the directory are no patterns, those of the pattern are.
func TestIn(t *testing.T) {
	for _, name := range []string{"plain", "a[1", "a[1]", "*"} {
		dir := filepath.Join(t.TempDir(), name)
		for _, f := range []string{"x.st", "y.st", "z", "sub/x.st"} {
			file := filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for pattern, want := range map[string][]string{"*.st": {"x.st", "y.st"}, "*/*.st": {"sub/x.st"}, "q*": nil} {
			var paths []string
			for _, f := range want {
				paths = append(paths, filepath.Join(dir, f))
			}
			if found, err := In(dir, pattern); err != nil || !slices.Equal(found, paths) {
				t.Errorf("%s in %s: %v, error %v, want %v", pattern, dir, found, err, paths)
			}
		}
		if found, err := In(filepath.Join(dir, "missing"), "*"); found != nil || err != nil {
			t.Errorf("missing directory: %v, error %v", found, err)
		}
		if _, err := In(dir, "["); !errors.Is(err, path.ErrBadPattern) {
			t.Errorf("error %v", err)
		}
	}
}
