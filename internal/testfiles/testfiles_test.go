package testfiles

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLeft: files that stay open count, also if nothing refers to them; closed ones do not.
func TestLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	create := func() *os.File {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if n := Left(t, func() { create(); create() }); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
	if n := Left(t, func() { create().Close() }); n != 0 {
		t.Errorf("%d files, want none", n)
	}
}
