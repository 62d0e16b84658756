package hook

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// script writes a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCommand: a command gets the description on its standard input, arguments without a shell, the variables of the
// delivery, those of the service but not its connection to systemd, and the products as working directory.
func TestCommand(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "/run/none")
	t.Setenv("SITE_NAME", "here")
	out := t.TempDir()
	seen := filepath.Join(t.TempDir(), "seen")
	c := script(t, `{ echo "$#|$1|$2"; echo "$HOOK_ID|$HOOK_INIT|$HOOK_STATUS|$HOOK_ATTEMPT|$SITE_NAME|${NOTIFY_SOCKET-none}"; echo "$HOOK_DIRECTORY"; pwd -P; cat; } >`+seen+`.new && mv `+seen+`.new `+seen+"\n")
	h := start(t, out, config.Hook{Command: []string{c, "a b", "$HOME"}})
	h.issue(t, "2026010112", "1")
	eventually(t, "the command", func() bool { _, err := os.Stat(seen); return err == nil && h.Status().Pending == 0 })
	text, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	p, err := readProducts(out, "2026010112")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs(p.directory)
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"2|a b|$HOME", p.id + "|2026010112|degraded|1|here|none", dir, real} {
		if lines[i] != want {
			t.Errorf("line %d: %q, want %q", i, lines[i], want)
		}
	}
	if !strings.HasPrefix(lines[4], `{"type":"ensemble.issued","timestamp":"2026-01-01T12:00:00Z","data":{"schema":"ensemble.issued/1","id":"`+p.id) {
		t.Errorf("standard input %q", lines[4])
	}
	if h.Status().Calls != "command" {
		t.Errorf("%+v", h.Status())
	}
}

// sendBy sends a message by a command with a time limit.
func sendBy(t *testing.T, limit time.Duration, text string) error {
	t.Helper()
	r, err := newCommand(config.Hook{Command: []string{script(t, text)}, Timeout: limit})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return r.send(ctx, message{Issued: Issued{Directory: t.TempDir()}, body: make([]byte, 1<<20)}) // more than a pipe holds
}

// TestCommandFails: the message of a failure has the status and the end of the output, whatever its size. A command need
// not read its input, and one that leaves a process behind has not failed.
func TestCommandFails(t *testing.T) {
	err := sendBy(t, patience, "yes noise | head -c 300000; echo 'cannot reach\n the archive' >&2; exit 3\n")
	if err == nil || !strings.HasPrefix(err.Error(), "exit status 3: ") || !strings.HasSuffix(err.Error(), "cannot reach the archive") || len(err.Error()) > tailBytes+100 {
		t.Errorf("%v", err)
	}
	if err := sendBy(t, patience, "exit 0\n"); err != nil {
		t.Errorf("a command that reads nothing: %v", err)
	}
	if err := sendBy(t, patience, "sleep 7 & exit 0\n"); err != nil {
		t.Errorf("a command that leaves a process: %v", err)
	}
}

// TestCommandHangs: a command that takes too long is ended with all processes that it started, also those that ignore
// SIGTERM.
func TestCommandHangs(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r, err := newCommand(config.Hook{Command: []string{script(t, `trap "" TERM
(trap "" TERM; while :; do sleep 1; done) &
echo $$ $! >`+pids+`.new && mv `+pids+`.new `+pids+`
while :; do sleep 1; done
`)}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // its time ends when both run, on a busy machine too
		for {
			if _, err := os.Stat(pids); err == nil || t.Context().Err() != nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	err = r.send(ctx, message{Issued: Issued{Directory: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "it took longer than serve.on_issue.timeout, 1m0s, and was ended") {
		t.Fatalf("%v", err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(text)) {
		eventually(t, "process "+pid+" has ended", func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return err != nil || strings.Contains(string(stat), ") Z ") // waits for its new parent
		})
	}
	if err := sendBy(t, 200*time.Millisecond, "exec sleep 100\n"); err == nil {
		t.Error("a command that ends at SIGTERM counts as a success")
	}
}

// TestCommandMissing: a command that cannot be executed is refused.
func TestCommandMissing(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/no/such/program", plain, "no-such-program-anywhere"} {
		if _, err := newCommand(config.Hook{Command: []string{path}}); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "serve.on_issue.command") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
