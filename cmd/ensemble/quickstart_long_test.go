//go:build long

package main

import (
	"os"
	"os/exec"
	"testing"
)

// installed installs the programs as the README says, and gives their folder. The installed program must find its decoding program by itself.
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

// TestLongQuickstart follows the quickstart as it stands, with the installed programs.
func TestLongQuickstart(t *testing.T) {
	programs := installed(t)
	t.Setenv("ENSEMBLE_DECODE", "")
	follow(t, quickstartPage, blocks(t, quickstartPage), programs, false)
}
