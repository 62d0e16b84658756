package testdata

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Unzip extracts a zip archive to a new temporary directory of the test.
func Unzip(t testing.TB, name string) (dir string) {
	t.Helper()
	r, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir = t.TempDir()
	for _, f := range r.File {
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
