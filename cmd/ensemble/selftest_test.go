package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// selfTestAnswer has the keys of the answer that the tests read.
type selfTestAnswer struct {
	Status string
	Checks []struct{ Name, State, Detail, Why, Fix string }
}

func (a selfTestAnswer) states() map[string]string {
	m := map[string]string{}
	for _, c := range a.Checks {
		m[c.Name] = c.State
	}
	return m
}

func callSelfTest(t *testing.T, dir string) (exit.Code, selfTestAnswer) {
	t.Helper()
	code, stdout, stderr := call(t, "self-test", "--json", "--out", dir)
	var a selfTestAnswer
	if err := json.Unmarshal([]byte(stdout), &a); err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v remains in %s, %v", left, dir, err)
	}
	return code, a
}

// TestSelfTestFaults: without the decoding program self-test reports it, runs all other checks, and leaves no
// files. TestLongSelfTest runs the complete one.
func TestSelfTestFaults(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("ENSEMBLE_DECODE", filepath.Join(dir, "nowhere"))
	code, a := callSelfTest(t, t.TempDir())
	s := a.states()
	if code != exit.NoDevice || a.Status != "failed" || s["decoding program"] != "missing" || s["GRIB"] != "skipped" || s["kernels"] != "ok" || s["file locks"] != "ok" {
		t.Errorf("without the child: exit %d, %+v", code, a)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "self-test", "--out", file); code != exit.CannotWrite {
		t.Errorf("a file as folder: exit %d, %s", code, stderr)
	}
}
