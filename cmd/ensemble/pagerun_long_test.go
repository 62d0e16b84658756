//go:build long

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
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
		t.Run(name, func(t *testing.T) { runPage(t, name, all[name], pythonFolder(t)+":"+programs, data) })
	}
}

// pageData are inits for the pages, of the demo's atmosphere: a training, a validation and a daily test period.
func pageData(t *testing.T) string {
	return demoData(t, initSeries{time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), 40, 6}, initSeries{time.Date(2025, 9, 15, 0, 0, 0, 0, time.UTC), 8, 6},
		initSeries{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 20, 1}) // enough for a verdict on two models
}

// runPage runs the commands of a page after its set-up, and compares their output with that of the page.
func runPage(t *testing.T, name string, all []block, programs, data string) {
	t.Helper()
	setup, err := filepath.Abs("testdata/pages")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAGE_DATA", data)
	t.Setenv("PAGES", setup)
	begin := block{line: 1, commands: fmt.Sprintf(". %s/common.sh\n. %[1]s/%s.sh\n", setup, name)}
	follow(t, "../../docs/"+name+".md", append([]block{begin}, all...), programs, false)
}
