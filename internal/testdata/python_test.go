package testdata

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPython: the interpreter of the variable is taken if it has the modules, else that of the set-up; the error has the reason of each.
func TestPython(t *testing.T) {
	dir := t.TempDir()
	named := filepath.Join(dir, "named")
	if err := os.WriteFile(named, []byte("#!/bin/sh\ncase \"$2\" in *absent*) echo 'No module absent' >&2; exit 1;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ENSEMBLE_TEST_PYTHON", named)
	if got, err := FindPython("here"); err != nil || got != named {
		t.Errorf("%s, %v", got, err)
	}
	_, err := FindPython("here", "absent")
	if err == nil || !strings.Contains(err.Error(), named+": exit status 1: No module absent") || !strings.Contains(err.Error(), "build/venv/bin/python3: ") {
		t.Errorf("got %v", err)
	}
	if got := Python(t, "json"); got != named {
		t.Errorf("got %s", got)
	}
	t.Setenv("ENSEMBLE_TEST_PYTHON", "")
	if got, err := FindPython(); err == nil && got != filepath.Join(module(), "build/venv/bin/python3") {
		t.Errorf("without the variable: %s", got)
	}
}
