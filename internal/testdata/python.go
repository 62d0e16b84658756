package testdata

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// FindPython returns the path of a Python that has the modules: that of ENSEMBLE_TEST_PYTHON, or the one of build/venv, which
// scripts/setup.sh test installs. The error has what each of them lacks.
func FindPython(modules ...string) (string, error) {
	var reasons []string
	for _, python := range []string{os.Getenv("ENSEMBLE_TEST_PYTHON"), filepath.Join(module(), "build", "venv", "bin", "python3")} {
		if python == "" {
			continue
		}
		load := "import sys"
		for _, m := range modules {
			load += ", " + m
		}
		out, err := exec.Command(python, "-c", load).CombinedOutput()
		if err == nil {
			return python, nil
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		reasons = append(reasons, fmt.Sprintf("%s: %v: %s", python, err, lines[len(lines)-1]))
	}
	return "", fmt.Errorf("no Python that has %q (scripts/setup.sh test installs it; ENSEMBLE_TEST_PYTHON names another): %s", modules, strings.Join(reasons, "; "))
}

// Python is FindPython for a test that is skipped if there is none.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	python, err := FindPython(modules...)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	return python
}
