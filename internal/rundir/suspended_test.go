package rundir_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/rundir/rundirtest"
)

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPublished: wherever a process is suspended while it publishes, none can take its directory over.
func TestPublished(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	writes := func(o rundir.Options) {
		d, _, err := rundir.Open(dir, o)
		must(t, err)
		must(t, errors.Join(d.WriteConfig([]byte("x"), []rundir.Source{{Path: "a.yaml", Text: []byte("a")}}), d.WriteEnvironment(rundir.Environment{}),
			d.Events().Write("step", 1, 0), d.WriteManifest(rundir.Manifest{Identity: "one"}, []string{"config.effective.yaml"}), d.Close()))
	}
	rundirtest.CheckPublished(t, dir, func() { writes(rundir.Options{}) })
	rundirtest.CheckPublished(t, dir, func() { writes(rundir.Options{Overwrite: true}) })
	rundirtest.CheckPublished(t, dir, func() { // the run that was replaced comes back
		d, _, err := rundir.Open(dir, rundir.Options{Overwrite: true})
		must(t, errors.Join(err, d.WriteConfig([]byte("y"), nil), d.Close()))
	})
}

// takeOver gives the lease of a directory to another machine, as if this process had been suspended for long.
func takeOver(t *testing.T, dir string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"host": "elsewhere", "boot": "other", "pid": 1, "token": "a", "heartbeats": 1_000_000_000})
	must(t, err)
	path := filepath.Join(dir, "run.lock")
	must(t, errors.Join(os.WriteFile(path+".new", text, 0o644), os.Rename(path+".new", path)))
}

// TestSuspended: a process that was suspended until another one had its directory publishes nothing, and its events do not get
// into the log of the other.
func TestSuspended(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	d, _, err := rundir.Open(dir, rundir.Options{})
	must(t, errors.Join(err, d.WriteConfig([]byte("x"), nil), d.Events().Write("step", 1, 0)))
	must(t, os.Remove(filepath.Join(dir, "run.lock"))) // as the next owner does
	next, state, err := rundir.Open(dir, rundir.Options{Resume: true})
	if must(t, err); state != rundir.Resuming {
		t.Fatalf("state %d", state)
	}
	must(t, errors.Join(next.Events().Resumed(1, 0), next.WriteConfig([]byte("next"), nil)))
	if err := d.Events().Write("step", 2, 0); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]func() error{
		"configuration": func() error { return d.WriteConfig([]byte("late"), nil) },
		"environment":   func() error { return d.WriteEnvironment(rundir.Environment{}) },
		"manifest":      func() error { return d.WriteManifest(rundir.Manifest{Identity: "late"}, nil) },
		"other":         func() error { return d.Publish(func() error { return errors.New("published") }) },
	} {
		if err := f(); !errors.Is(err, lease.ErrHeld) || exit.CodeOf(err) != exit.CannotWrite {
			t.Errorf("%s: %v, want exit 73", name, err)
		}
	}
	must(t, next.Events().Write("step", 3, 0))
	text, err := os.ReadFile(filepath.Join(dir, rundir.EventsFile))
	if must(t, err); strings.Contains(string(text), `"step":2,`) || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("the log of the next process is %s", text)
	}
	config, err := os.ReadFile(next.File("config.effective.yaml"))
	if _, e := os.Stat(next.File("manifest.json")); err != nil || string(config) != "next" || !errors.Is(e, os.ErrNotExist) {
		t.Errorf("the configuration is %q, %v; a manifest: %v", config, err, e)
	}
	takeOver(t, dir)
	if err := next.Events().Sync(); err != nil {
		t.Error(err)
	}
	if err := next.WriteConfig([]byte("later"), nil); !errors.Is(err, lease.ErrHeld) || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("after a process of another machine: %v", err)
	}
	must(t, errors.Join(next.Close(), d.Close()))
}

// TestSuspendedReplacement: a process that lost its directory does not bring back the run that it replaces.
func TestSuspendedReplacement(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	d, _, err := rundir.Open(dir, rundir.Options{})
	must(t, errors.Join(err, d.WriteConfig([]byte("old"), nil), d.Close()))
	d, _, err = rundir.Open(dir, rundir.Options{Overwrite: true})
	must(t, errors.Join(err, d.WriteConfig([]byte("new"), nil)))
	takeOver(t, dir)
	must(t, d.Close())
	if text, err := os.ReadFile(filepath.Join(dir, "config.effective.yaml")); err != nil || string(text) != "new" {
		t.Errorf("the configuration is %q, %v", text, err)
	}
}
