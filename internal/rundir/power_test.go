package rundir

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// replacement is a run directory with all files of a finished run, which another run replaces.
func replacement(t *testing.T, root string) (old powerfail.Tree) {
	t.Helper()
	for _, name := range append([]string{"checkpoints/step-000000004", "model", "report"}, files...) {
		path := filepath.Join(root, "run", name)
		if filepath.Ext(name) == "" && name != "SHA256SUMS" {
			path = filepath.Join(path, "x")
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(name), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	old, err := powerfail.ReadTree(filepath.Join(root, "run"))
	if err != nil {
		t.Fatal(err)
	}
	return old
}

// replace begins another run in a directory, which ends with an error before its first checkpoint, or gets one.
func replace(dir string, checkpoint bool) error {
	d, state, err := Open(dir, Options{Overwrite: true})
	if err != nil {
		return err
	}
	names, err := d.content()
	if len(names) > 0 || state != Fresh {
		err = fmt.Errorf("state %d, content %q, %w", state, names, err)
	}
	if err == nil {
		err = d.WriteConfig([]byte("new"), nil)
	}
	if err == nil && checkpoint {
		err = atomicfile.MkdirAll(d.File("checkpoints"), 0o777)
	}
	if err == nil && checkpoint {
		err = atomicfile.WriteFile(d.File("checkpoints", "LATEST"), []byte("new"))
	}
	return errors.Join(err, d.Close())
}

// oldOrNew opens a directory without options, which every run refuses, and compares it with the old and the new run.
func oldOrNew(dir string, old powerfail.Tree) (isNew bool, err error) {
	if err := os.RemoveAll(filepath.Join(dir, lockFile)); err != nil { // its owner, this process, lives
		return false, err
	}
	if _, _, err := Open(dir, Options{}); err == nil {
		return false, errors.New("opened without options")
	}
	got, err := powerfail.ReadTree(dir)
	if err != nil {
		return false, err
	}
	delete(got, lockFile)
	fresh := powerfail.Tree{"checkpoints/": nil, "checkpoints/LATEST": []byte("new"), "config.effective.yaml": []byte("new")}
	if same := func(a, b []byte) bool { return string(a) == string(b) }; maps.EqualFunc(got, fresh, same) {
		return true, nil
	} else if !maps.EqualFunc(got, old, same) {
		return false, fmt.Errorf("neither the old run nor the new one: %q", slices.Sorted(maps.Keys(got)))
	}
	return false, nil
}

// located compares the run that readers find with the old one. It is an error if neither that is found, nor the error says
// where it is, unless the new one has a checkpoint.
func located(dir string, old powerfail.Tree) error {
	at, err := Locate(dir)
	if err != nil {
		if _, e := os.Stat(filepath.Join(dir, replacingDir, manifest.Name)); e != nil || exit.CodeOf(err) != exit.NotYet {
			return err
		}
		return nil
	}
	got, err := powerfail.ReadTree(at)
	if err != nil {
		return err
	}
	if _, finished := got[manifest.Name]; !finished {
		if _, err := os.Stat(filepath.Join(dir, "checkpoints", "LATEST")); err != nil {
			return fmt.Errorf("a reader finds no run: %w", err)
		}
		return nil
	}
	maps.DeleteFunc(got, func(name string, _ []byte) bool {
		return strings.Contains(name, lockFile) || strings.HasPrefix(name, replacingDir) || at == dir && strings.HasPrefix(name, replacedDir)
	})
	if !maps.EqualFunc(got, old, func(a, b []byte) bool { return string(a) == string(b) }) {
		return fmt.Errorf("a reader finds in %s: %q", at, slices.Sorted(maps.Keys(got)))
	}
	return nil
}

// TestFault24: the power fails at any moment while a run is replaced by another one. The directory has the old one, whole, or
// the new one with its checkpoint; readers find it, and the next command can replace it in the same way. (More moments:
// TestLongFault24.)
func TestFault24(t *testing.T) { failPower(t, 60) }

// failPower looks at a number of states of the disk of each replacement.
func failPower(t *testing.T, states int) {
	for _, checkpoint := range []bool{false, true} {
		root := t.TempDir()
		old := replacement(t, root)
		l := powerfail.Run(t, root, func(*powerfail.Recorder) error { return replace(filepath.Join(root, "run"), checkpoint) })
		l.Check(t, l.Some(1, states), func(dir string, s powerfail.State) error {
			dir = filepath.Join(dir, "run")
			if err := located(dir, old); err != nil {
				return err
			}
			isNew, err := oldOrNew(dir, old)
			if err == nil && s.Point == len(l.Ops) && isNew != checkpoint {
				err = fmt.Errorf("the new run: %v, want %v", isNew, checkpoint)
			}
			return errors.Join(err, replace(dir, true))
		})
	}
}

// TestFault21: an error at any operation while a run is replaced leaves the old one, whole, or the new one with its checkpoint.
func TestFault21(t *testing.T) {
	old, root := powerfail.Tree(nil), t.TempDir()
	for round := range faultfs.Rounds(faultfs.Fault{Of: faultfs.Changing, Err: unix.ENOSPC}, 1) {
		if err := os.RemoveAll(filepath.Join(root, "run")); err != nil {
			t.Fatal(err)
		}
		old = replacement(t, root)
		hit, err := round.Run(t, func() error { return replace(filepath.Join(root, "run"), true) })
		if hit == nil {
			break
		}
		if _, wrong := oldOrNew(filepath.Join(root, "run"), old); !errors.Is(err, unix.ENOSPC) || wrong != nil {
			t.Errorf("%v: %v, %v", *hit, err, wrong)
		}
	}
}

// TestFault24Events: events that were synced before a checkpoint are there after a power failure, if the checkpoint is.
func TestFault24Events(t *testing.T) {
	root := t.TempDir()
	l := powerfail.Run(t, root, func(*powerfail.Recorder) error {
		d, _, err := Open(filepath.Join(root, "run"), Options{})
		for step := uint64(1); step <= 3 && err == nil; step++ {
			err = errors.Join(d.Events().Write("step", step, 0, Value{"loss", 1}), d.Events().Sync(), d.write("checkpoint", fmt.Append(nil, step)))
		}
		return errors.Join(err, d.Close())
	})
	kept := 0
	l.Check(t, l.States(1, 2), func(dir string, _ powerfail.State) error {
		dir = filepath.Join(dir, "run")
		text, err := os.ReadFile(filepath.Join(dir, "checkpoint"))
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		kept++
		var step int
		if _, err := fmt.Sscan(string(text), &step); err != nil {
			return err
		}
		events, err := ReadEvents(dir)
		if len(events) < step && err == nil {
			err = fmt.Errorf("%d events, and the checkpoint of step %d", len(events), step)
		}
		return err
	})
	if kept == 0 {
		t.Error("no state has a checkpoint")
	}
}
