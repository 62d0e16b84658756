//go:build long

package main

import (
	"os"
	"os/exec"
	"testing"
)

// TestLongTutorial installs the programs as the README says and follows the tutorial as
// it stands. The installed program must find its decoding program by itself.
func TestLongTutorial(t *testing.T) {
	programs := t.TempDir()
	install := exec.Command("go", "install", "./cmd/...")
	install.Dir = "../.."
	install.Env = append(os.Environ(), "GOBIN="+programs)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	t.Setenv("ENSEMBLE_DECODE", "")
	follow(t, tutorialPage, blocks(t, tutorialPage), programs, false)
}
