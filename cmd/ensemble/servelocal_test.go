package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// TestServeWithoutDecoder: a file that arrives while the decoding program is missing is not remembered as bad. It is
// read when the program is back, though it did not change.
func TestServeWithoutDecoder(t *testing.T) {
	f := faulty(t)
	real := testdecoder.Path(t)
	decoder := filepath.Join(f.dir, "decoder")
	install := func() {
		t.Helper()
		if err := os.Symlink(real, decoder); err != nil {
			t.Fatal(err)
		}
	}
	install()
	t.Setenv("ENSEMBLE_DECODE", decoder)
	in := filepath.Join(f.dir, "in")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	s := f.serve("--run-dir", f.run, "--out", filepath.Join(f.dir, "out"), "--input", in, "--set", "members.poll=0.03s", "--set", "serve.retry_delay=0.05s")
	s.awaitLog(`"msg":"the model is ready"`, 1)
	if err := os.Remove(decoder); err != nil {
		t.Fatal(err)
	}
	s.killChildren()
	file := f.put("in/fc.grib2", join(cycle(lastDay)...))
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is listed with the reason", func() bool {
		_, status := s.get("/status")
		return bytes.Contains(status, []byte(file)) && bytes.Contains(status, []byte("the decoding program"))
	})
	install()
	s.awaitLog(`"msg":"issued"`, 1)
	if after, err := os.Stat(file); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the file changed: %v", err)
	}
	s.stop(syscall.SIGTERM)
}

// killChildren kills the decoding children of the service.
func (s *resident) killChildren() {
	s.Helper()
	for _, pid := range childrenOf(s.T, s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // threads may end
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// TestServeUnwritableOut: a service whose product folder cannot be written ends before it reports that it is ready,
// and before it listens.
func TestServeUnwritableOut(t *testing.T) {
	f := faulty(t)
	out := filepath.Join(f.dir, "out")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]struct {
		code exit.Code
		word string
	}{"ro": {exit.CannotWrite, "read-only file system"}, "nr_inodes=1": {exit.IO, "no space left"}} {
		line := append(ownDisk(t, out, options), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--run-dir", f.run, "--input", f.dir, "--out", out)
		ctx, cancel := context.WithTimeout(t.Context(), patience) // a service that starts does not end
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		text, _ := cmd.CombinedOutput()
		cancel()
		code := exit.Code(cmd.ProcessState.ExitCode())
		if code != want.code || !bytes.Contains(text, []byte(want.word)) || bytes.Contains(text, []byte("listening")) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s", options, code, want.code, want.word, text)
		}
		if left, _ := os.ReadDir(out); len(left) > 0 {
			t.Errorf("%s: left %v", options, left)
		}
	}
}
