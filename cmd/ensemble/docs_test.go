package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestDocumentedCommands: every command of the migration page is one of this program's, with
// flags that it has. Those of the tutorial are run: TestTutorial.
func TestDocumentedCommands(t *testing.T) {
	const path, least = "../../docs/migration.md", 12
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found, inside := 0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = line == "```sh"
			continue
		}
		if !inside {
			continue
		}
		found++
		words, err := exec.Command("sh", "-c", "set -f; printf '%s\\n' "+line).Output()
		if err != nil {
			t.Fatalf("%s: %s: %v", path, line, err)
		}
		args := strings.Split(strings.TrimSpace(string(words)), "\n")
		if args[0] != "ensemble" {
			t.Errorf("%s: %s does not begin with the program", path, line)
			continue
		}
		code, stdout, stderr := call(t, append(args[1:], "--help")...)
		if code != exit.OK || !strings.Contains(stdout, "\nUsage:\n  ensemble "+args[1]) {
			t.Errorf("%s: %s: exit %d, %s", path, line, code, stderr)
		}
	}
	if found < least {
		t.Errorf("%s: %d commands, want %d", path, found, least)
	}
}
