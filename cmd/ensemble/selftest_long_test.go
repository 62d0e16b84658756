//go:build long

package main

import (
	"os"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestLongSelfTest: all of the installation works here, to the recorded scores; a child
// that dies is a failure and not a missing library.
func TestLongSelfTest(t *testing.T) {
	path := testdecoder.Path(t)
	t.Setenv("ENSEMBLE_DECODE", path)
	code, a := callSelfTest(t, t.TempDir())
	for _, c := range a.Checks {
		if c.State != "ok" && c.State != "absent" {
			t.Errorf("%s: %s: %s", c.Name, c.State, c.Why)
		}
	}
	if code != exit.OK || a.Status != "ok" || len(a.Checks) < 12 {
		t.Errorf("exit %d, %+v", code, a)
	}
	dead := t.TempDir() + "/dead"
	if err := os.WriteFile(dead, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENSEMBLE_DECODE", dead)
	if code, a := callSelfTest(t, t.TempDir()); code == exit.OK || a.states()["GRIB"] != "skipped" {
		t.Errorf("with a child that dies: exit %d, %+v", code, a)
	}
}
