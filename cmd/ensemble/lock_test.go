package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/lease"
)

// TestLockOfProducts runs two predictions of the same init: with a deadline the second waits, without one it fails
// and names the process that holds the lock. The lock of a killed process is taken over.
func TestLockOfProducts(t *testing.T) {
	f := faulty(t)
	input := f.put("fc.grib2", join(cycle(lastDay)...))
	out := t.TempDir()
	lock := filepath.Join(out, "."+lastDay.Format("2006010215")+".lock")
	line := func(more ...string) []string {
		return append([]string{"predict", "--run-dir", f.run, "--out", out, "--threads", "1", "--progress", "none", "--input", input}, more...)
	}
	hold := func() *lease.Lease {
		l, err := lease.Take(lock, "the init")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := hold()
	f.expect(exit.CannotWrite, []string{"the directory of initialisation 2001100800 is in use", lock, "since 20", "its process is running"}, line()...)
	f.expect(exit.CannotWrite, []string{"waiting until", "is in use"}, line("--deadline", "+0.1s", "--set", "members.poll=0.02s", "--set", "members.wait=0.1s")...)
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 1 {
		t.Errorf("a rejected prediction left %v, %v", entries, err)
	}
	log := filepath.Join(f.dir, "log")
	go func() {
		logged(log, "waiting until")
		l.Release()
	}()
	f.expect(exit.OK, []string{"waiting until", "0 of them already"}, line("--deadline", "+10m", "--log-file", log, "--set", "members.poll=0.02s")...)
	l = hold() // complete products need no lock
	f.expect(exit.OK, []string{"1 of them already"}, line()...)
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}

	// A killed process leaves its lock and half of its files.
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	var owner map[string]any
	if err := json.Unmarshal(text, &owner); err != nil {
		t.Fatal(err)
	}
	owner["pid"] = gone.Process.Pid
	text, _ = json.Marshal(owner)
	if err := os.WriteFile(lock, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(out, ".2001100800.partial-x", "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.OK, []string{"0 of them already"}, line("--overwrite", "always")...)
	clean := func() {
		t.Helper()
		if left, _ := filepath.Glob(filepath.Join(out, ".*")); left != nil {
			t.Errorf("left: %q", left)
		}
	}
	clean()

	// A process that was killed after publishing leaves its lock.
	if err := os.WriteFile(lock, text, 0o644); err != nil {
		t.Fatal(err)
	}
	f.expect(exit.OK, []string{"1 of them already"}, line()...)
	clean()

	// Two concurrent processes produce one product.
	if err := os.RemoveAll(filepath.Join(out, "2001100800")); err != nil {
		t.Fatal(err)
	}
	var both [2]strings.Builder
	var cmds [2]*exec.Cmd
	for i := range cmds {
		cmds[i] = exec.Command(os.Args[0], line("--deadline", "+60s", "--set", "members.poll=0.02s")...)
		cmds[i].Stdout, cmds[i].Stderr = &both[i], &both[i]
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cmds {
		if err := cmds[i].Wait(); err != nil {
			t.Errorf("%v: %s", err, &both[i])
		}
	}
	if all := both[0].String() + both[1].String(); strings.Count(all, "0 of them already") != 1 || strings.Count(all, "1 of them already") != 1 {
		t.Errorf("two concurrent processes: %s", all)
	}
	f.made(out, "ok", "0 1 2", "")
}
