package filesystem_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// TestFault29Stale: a stale handle is replaced by a new one, twice in a row; one that remains stale ends the operation, with the
// number of attempts.
func TestFault29Stale(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	operations := map[faultfs.Kind]func() error{
		faultfs.Open: func() error {
			f, err := filesystem.Open(path)
			if err == nil {
				f.Close()
			}
			return err
		},
		faultfs.Read: func() error {
			text, err := filesystem.ReadFile(path)
			if err == nil && string(text) != "text" {
				t.Errorf("read %q", text)
			}
			return err
		},
		faultfs.Stat:    func() error { _, err := filesystem.Stat(path); return err },
		faultfs.ReadDir: func() error { _, err := filesystem.ReadDir(dir); return err },
	}
	for kind, operate := range operations {
		s, restore := faultfs.Use(faultfs.Fault{N: 1, Times: 2, Of: []faultfs.Kind{kind}, Err: unix.ESTALE})
		err := operate()
		restore()
		if err != nil || len(s.Injected()) != 2 {
			t.Errorf("%s: %v after %d stale handles", kind, err, len(s.Injected()))
		}
		_, restore = faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{kind}, Err: unix.ESTALE})
		err = operate()
		restore()
		if !errors.Is(err, unix.ESTALE) || !strings.Contains(err.Error(), "4 times in ") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	s, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Read}, Err: unix.EIO})
	defer restore()
	if _, err := filesystem.ReadFile(path); !errors.Is(err, unix.EIO) || len(s.Injected()) != 1 {
		t.Errorf("other errors are not repeated: %v, %d times", err, len(s.Injected()))
	}
}
