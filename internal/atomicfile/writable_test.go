package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// The folder itself is tried, or the nearest one above it, and nothing is left in it. Systems without unnamed files pass.
func TestCheckWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		err, want  error
	}{
		{"folder", dir, nil, nil},
		{"new folders", filepath.Join(dir, "a", "b"), nil, nil},
		{"below a file", filepath.Join(file, "a"), nil, unix.ENOTDIR},
		{"read-only", filepath.Join(dir, "a"), unix.EROFS, unix.EROFS},
		{"not permitted", dir, unix.EACCES, unix.EACCES},
		{"without unnamed files", dir, unix.EOPNOTSUPP, nil},
	} {
		f := faultfs.Fault{Of: []faultfs.Kind{faultfs.Create}, At: func(op faultfs.Operation) bool { return op.Path == dir }, Err: c.err}
		if c.err != nil {
			f.N = 1
		}
		s, restore := faultfs.Use(f)
		err := atomicfile.CheckWritable(c.path)
		restore()
		if !errors.Is(err, c.want) || s.Count() != 1 && c.want != unix.ENOTDIR {
			t.Errorf("%s: %v after %d files, want %v", c.name, err, s.Count(), c.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestCheckWritableCloses: the file that is opened is closed again.
func TestCheckWritableCloses(t *testing.T) {
	s, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Close}, Err: unix.EIO})
	defer restore()
	if err := atomicfile.CheckWritable(t.TempDir()); s.Count() != 1 || !errors.Is(err, unix.EIO) {
		t.Errorf("%d files closed, %v", s.Count(), err)
	}
}
