package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestMan: every command has a page with all its flags, words and examples as typed, and groff and mandoc report
// no fault.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := call(t, "man", "--out", dir, "--date", "2026-01-31")
	if code != exit.OK {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	files := strings.Split(strings.TrimSpace(stdout), "\n")
	shown := renderMan(t, files)
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := filepath.Join(dir, "man1", pageName(cmd)+".1")
		text, ok := shown[path]
		if !ok {
			t.Errorf("%s has no page", cmd.CommandPath())
		}
		flat := strings.Join(strings.Fields(text), " ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if usage := strings.ReplaceAll(f.Usage, "`", ""); !f.Hidden && (!strings.Contains(flat, "--"+f.Name) || !strings.Contains(flat, usage)) {
				t.Errorf("%s does not name --%s, %s", path, f.Name, usage)
			}
		})
		for word := range strings.FieldsSeq(cmd.Long) {
			if word = strings.ReplaceAll(word, "`", ""); !strings.Contains(text, word) { // code is bold
				t.Errorf("%s does not contain %q", path, word)
			}
		}
		for line := range strings.Lines(cmd.Example) {
			if line = strings.TrimSpace(line); !strings.Contains(text, line) {
				t.Errorf("%s does not show %q", path, line)
			}
		}
		for _, sub := range visibleCommands(cmd) {
			walk(sub)
		}
	}
	walk(newApp(&bytes.Buffer{}, &bytes.Buffer{}).root)

	if keys := shown[filepath.Join(dir, "man5", "ensemble-train.yaml.5")]; !strings.Contains(keys, "train.batch_size") || !strings.Contains(keys, "ENSEMBLE_TRAIN_BATCH_SIZE") {
		t.Errorf("the page of train.yaml lacks train.batch_size:\n%.2000s", keys)
	}
	if code, _, stderr := call(t, "man", "--out", dir, "--date", "31.1.2026"); code != exit.Usage || !strings.Contains(stderr, "2026-01-31") {
		t.Errorf("a wrong date: exit %d, %s", code, stderr)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := call(t, "man", "--out", file); code != exit.CannotWrite {
		t.Errorf("a file as folder: exit %d", code)
	}
}

// renderMan returns pages as rendered by mandoc, and reports warnings of mandoc and groff.
func renderMan(t *testing.T, files []string) map[string]string {
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("skipped: no mandoc in PATH")
	}
	if out, err := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput(); err != nil {
		t.Errorf("mandoc: %v\n%s", err, out)
	}
	if groff, err := exec.LookPath("groff"); err == nil {
		out, err := exec.Command(groff, append([]string{"-man", "-Kutf8", "-Tutf8", "-ww", "-rLL=100n", "-z"}, files...)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("groff: %v\n%s", err, out)
		}
	}
	shown := map[string]string{}
	for _, f := range files {
		out, err := exec.Command(mandoc, "-T", "utf8", "-O", "width=300", f).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
		shown[f] = overstruck.ReplaceAllString(string(out), "")
	}
	return shown
}

// overstruck matches the prefix of bold and underlined letters on a terminal.
var overstruck = regexp.MustCompile(`.\x08`)
