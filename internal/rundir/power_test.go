package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/powerfail"
)

// TestFault24: the power fails at any moment while a run is removed and another one begins. The next command can use the
// directory in the same way, and finds nothing of the old run in it once it has.
func TestFault24(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append([]string{"checkpoints/step-000000004", "model", "report"}, files...) {
		path := filepath.Join(dir, "run", name)
		if filepath.Ext(name) == "" && name != "SHA256SUMS" {
			path = filepath.Join(path, "x")
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(name), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(dir string) error {
		d, state, err := Open(dir, Options{Overwrite: true})
		if err != nil {
			return err
		}
		names, err := d.content()
		if len(names) > 0 || state != Fresh {
			err = fmt.Errorf("state %d, content %q, %w", state, names, err)
		}
		return errors.Join(err, d.WriteConfig([]byte("new"), nil), d.Close())
	}
	l := powerfail.Run(t, dir, func(*powerfail.Recorder) error { return begin(filepath.Join(dir, "run")) })
	l.Check(t, l.Some(1, 300), func(dir string, s powerfail.State) error {
		dir = filepath.Join(dir, "run")
		if err := os.RemoveAll(filepath.Join(dir, lockFile)); err != nil { // its owner, this process, lives
			return err
		}
		return begin(dir)
	})
}
