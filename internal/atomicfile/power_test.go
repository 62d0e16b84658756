package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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
	for _, path := range []string{filepath.Join(dir, "a", "b", "f"), filepath.Join(dir, "a", "b", "f", "g")} {
		if err := MkdirAll(path, 0o755); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("a folder in place of a file, or below it: %v", err)
		}
	}
	if _, err := filesystem.Stat(filepath.Join(dir, "a", "b", "f")); err != nil {
		t.Error(err)
	}
}

// TestFault24Replace: the power fails at any moment while a folder takes the place of another one. It is the old or the new one, the new
// one once ReplaceDir has returned, and the other has the name of the temporary one.
func TestFault24Replace(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"old", "new"} {
		if err := errors.Join(os.Mkdir(filepath.Join(dir, name), 0o755), os.WriteFile(filepath.Join(dir, name, "is"), []byte(name), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	is := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name, "is"))
		return string(text) + fmt.Sprint(err)
	}
	l := powerfail.Run(t, dir, func(*powerfail.Recorder) error {
		return errors.Join(ReplaceDir(filepath.Join(dir, "new"), filepath.Join(dir, "old")), ReplaceDir(filepath.Join(dir, "new"), filepath.Join(dir, "third")))
	})
	if old, third := is(dir, "old"), is(dir, "third"); old != "new<nil>" || third != "old<nil>" {
		t.Errorf("replaced: %s, moved: %s", old, third)
	}
	l.Check(t, l.States(1, 20), func(dir string, s powerfail.State) error {
		old, third := is(dir, "old"), is(dir, "third")
		if old != "old<nil>" && old != "new<nil>" || s.Point == len(l.Ops) && (old != "new<nil>" || third != "old<nil>") {
			return fmt.Errorf("%s and %s", old, third)
		}
		return nil
	})
}
