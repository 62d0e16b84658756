//go:build long

package main

import (
	"os"
	"os/exec"
	"testing"
)

// installed installs the programs as README.md describes, and returns their folder. The installed program must
// find its decoding program.
func installed(t *testing.T) string {
	t.Helper()
	programs := t.TempDir()
	install := exec.Command("go", "install", "./cmd/...")
	install.Dir = "../.."
	install.Env = append(os.Environ(), "GOBIN="+programs)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	return programs
}

// TestLongQuickstart runs the quickstart page with the installed programs.
func TestLongQuickstart(t *testing.T) {
	programs := installed(t)
	t.Setenv("ENSEMBLE_DECODE", "")
	follow(t, quickstartPage, blocks(t, quickstartPage), programs, false)
}
