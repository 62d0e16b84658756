package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// TestFault24: the power fails at any moment of a replacement. The file is old or new, and new once WriteFile has returned.
func TestFault24(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	l := powerfail.Run(t, dir, func(*powerfail.Recorder) error {
		return WriteFile(filepath.Join(dir, "a"), []byte("new"))
	})
	l.Check(t, l.States(1, 20), func(dir string, s powerfail.State) error {
		text, err := os.ReadFile(filepath.Join(dir, "a"))
		if err == nil && string(text) != "new" && (string(text) != "old" || s.Point == len(l.Ops)) {
			err = fmt.Errorf("the file contains %q", text)
		}
		return err
	})
}

// TestFault24Folders: a new file in a new folder of a new folder is there once both were made and the file was written.
func TestFault24Folders(t *testing.T) {
	dir := t.TempDir()
	made := 0
	l := powerfail.Run(t, dir, func(r *powerfail.Recorder) error {
		err := MkdirAll(filepath.Join(dir, "a", "b"), 0o755)
		made = r.Operations()
		return errors.Join(err, MkdirAll(filepath.Join(dir, "a", "b"), 0o755), WriteFile(filepath.Join(dir, "a", "b", "f"), []byte("new")))
	})
	l.Check(t, l.States(1, 20), func(dir string, s powerfail.State) error {
		if _, err := os.Stat(filepath.Join(dir, "a", "b")); err != nil && s.Point >= made {
			return err
		}
		if text, err := os.ReadFile(filepath.Join(dir, "a", "b", "f")); err == nil && string(text) != "new" || s.Point == len(l.Ops) && err != nil {
			return fmt.Errorf("%q, %w", text, err)
		}
		return nil
	})
	if err := MkdirAll(filepath.Join(dir, "a", "b", "f", "g"), 0o755); err == nil {
		t.Error("a folder was made below a file")
	}
	if _, err := filesystem.Stat(filepath.Join(dir, "a", "b", "f")); err != nil {
		t.Error(err)
	}
}
