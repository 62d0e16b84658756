//go:build long

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	follow(t, quickstartPage, commandBlocks(t, quickstartPage), programs, false)
}

// TestLongPages runs the commands of every other page of docs, and compares their output with that of the page.
func TestLongPages(t *testing.T) {
	programs := installed(t)
	t.Setenv("ENSEMBLE_DECODE", filepath.Join(programs, "ensemble-decode"))
	data := pageData(t)
	t.Setenv("ENSEMBLE_DECODE", "")
	all := pagesToRun(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) { runPage(t, name, all[name], testPython(t)+":"+programs, data) })
	}
}
