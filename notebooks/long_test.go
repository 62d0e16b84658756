//go:build long

package notebooks

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLongNotebooks executes each notebook from scratch in a folder of its own, like a user who downloaded it and
// has a module that requires this one.
func TestLongNotebooks(t *testing.T) {
	for _, path := range notebooksHere(t) {
		t.Run(strings.TrimSuffix(path, ".ipynb"), func(t *testing.T) {
			t.Log(strings.TrimSpace(jupyter(t, moduleFolder(t), nil, path)))
		})
	}
}

func TestLongGCMNotebook(t *testing.T) {
	var all []int
	for i := range gcmOutputs {
		all = append(all, i)
	}
	executeGCM(t, all)
}

// TestLongCompletion: after the first cell the kernel proposes the methods of a dataset. gopls reads all packages that
// a cell imports; without cgo it does so before they are compiled.
func TestLongCompletion(t *testing.T) {
	programs := t.TempDir()
	install := exec.Command("go", "install", "-trimpath", "-ldflags=-s -w", "golang.org/x/tools/gopls@"+goplsVersion(t))
	install.Env = append(os.Environ(), "GOBIN="+programs, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", install, err, out)
	}
	t.Setenv("CGO_ENABLED", "0")
	cells := []string{
		findModule(t) + "\n%noautoget",
		"import ens \"github.com/ensemble-weather/ensemble/notebooks\"\n\nvar ds = ens.MustOpen(\"*.grib2\")\n\n%%\nds.",
	}
	text, err := json.Marshal(cells)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cells.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(kernel(t, []string{programs}, "testdata/complete.py", moduleFolder(t), path))
	for _, want := range []string{"Files", "Init", "Inits", "Show"} {
		if !slices.Contains(names, want) {
			t.Errorf("%q is not among the proposals %q", want, names)
		}
	}
}

// goplsVersion is the version that `make kernel` installs.
func goplsVersion(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile("../scripts/setup.sh")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^gopls_want=(\S+)`).FindSubmatch(script)
	if m == nil {
		t.Fatal("scripts/setup.sh has no version of gopls")
	}
	return string(m[1])
}
