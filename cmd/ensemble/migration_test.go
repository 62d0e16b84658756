package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

const migrationPage = "../../docs/data.md"

// sections are the headings of the migration page, each with the argument of the script that writes its data and
// checks its results, "" for a section that makes its own data.
var sections = []struct{ heading, data string }{{"## From IMPROVER", "improver"}, {"## From a PyTorch script", "pytorch"}, {"## From ENS-10's baselines", ""}}

// blocksOf returns the command blocks of a section of the migration page.
func blocksOf(t *testing.T, heading string) (own []block) {
	t.Helper()
	page, err := os.ReadFile(migrationPage)
	if err != nil {
		t.Fatal(err)
	}
	before, section, found := strings.Cut(string(page), heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", migrationPage, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	first := 1 + strings.Count(before, "\n")
	for _, b := range commandBlocks(t, migrationPage) {
		if b.line > first && b.line < first+strings.Count(section, "\n")+1 {
			own = append(own, b)
		}
	}
	if own == nil {
		t.Fatalf("%s: no commands in %q", migrationPage, heading)
	}
	return own
}

// python runs a script.
func python(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(testdata.Python(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// pythonFolder returns the folder of the interpreter, for the path.
func pythonFolder(t *testing.T) string {
	t.Helper()
	return filepath.Dir(testdata.Python(t))
}

// migrate runs command blocks of a section of the migration page in a folder with its data.
func migrate(t *testing.T, programs, data string, all []block) {
	t.Helper()
	const script, inits = "testdata/migration.py", "12"
	dir := t.TempDir()
	if data != "" {
		python(t, script, data, dir, inits)
	} else {
		root, err := filepath.Abs("../../experiments")
		if err == nil {
			err = os.Symlink(root, filepath.Join(dir, "experiments"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	followIn(t, dir, migrationPage, all, pythonFolder(t)+":"+programs, false)
	if data != "" {
		python(t, script, "check-"+data, dir)
	}
}

// TestMigration runs the migration page except the section that takes minutes: see TestLongMigration.
func TestMigration(t *testing.T) {
	t.Setenv("ENSEMBLE_DECODE", testdecoder.Path(t))
	program, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "ensemble"), []byte(fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", program)), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, s := range sections {
		t.Run(s.heading, func(t *testing.T) {
			all := blocksOf(t, s.heading)
			if s.data == "" {
				all = all[:1]
			}
			migrate(t, programs, s.data, all)
		})
	}
}
