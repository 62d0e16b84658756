//go:build long

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestLongSelfTest: all of the installation works here, with the recorded scores. A child that crashes is a
// failure, not a missing library.
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

// TestLongSelfTestWithoutOneDNN: if the library cannot be opened, self-test reports it once, states how many
// kernels are missing, and passes all other checks.
func TestLongSelfTestWithoutOneDNN(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	hidden := t.TempDir()
	for _, name := range []string{"libdnnl.so", "libdnnl.so.2", "libdnnl.so.3"} { // found first, but no libraries
		if err := os.WriteFile(filepath.Join(hidden, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0], "self-test", "--json", "--progress", "none", "--out", t.TempDir())
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+hidden)
	out, _ := cmd.Output()
	var a selfTestAnswer
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, c := range a.Checks {
		if c.Name == "kernels" {
			t.Log(c.Detail)
		}
		switch {
		case c.Name == "kernels" && !strings.Contains(c.Detail, " more need oneDNN"):
			t.Errorf("kernels: %s", c.Detail)
		case c.Name == "oneDNN" && c.State == "ok", c.Name != "oneDNN" && c.State != "ok" && c.State != "absent":
			t.Errorf("%s: %s, %s%s", c.Name, c.State, c.Detail, c.Why)
		}
	}
}
