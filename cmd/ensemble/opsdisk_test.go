package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStepFullLogDisk: with a full disk of logs step.sh still raises the alarm of a degraded product and of a refusal.
func TestStepFullLogDisk(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, halfDays(lastDay, 1), 4)
	x := s.inits[0]
	sent := filepath.Join(f.dir, "sent")
	alarm := f.put("alarm.sh", []byte("#!/bin/sh\nprintf '%s\\n' \"$*\" >>'"+sent+"'\n"))
	if err := errors.Join(os.Chmod(alarm, 0o755), os.MkdirAll(s.logs, 0o755)); err != nil {
		t.Fatal(err)
	}
	disk := ownDisk(t, s.logs, "size=16k")
	s.env = append(s.env, "ALARM="+alarm)
	const full = `cat /dev/zero >"$0/filler" 2>/dev/null; : >"$0/predict.jsonl"; ` // the log file can be opened, not written
	step := func(code int, want, script string) {
		t.Helper()
		line := append(slices.Clone(disk), "bash", "-c", full+script, s.logs, filepath.Join(s.ops, "step.sh"), "predict", name(x))
		out, err := s.try(line[0], line[1:]...)
		got := 0
		var e *exec.ExitError
		if errors.As(err, &e) {
			got = e.ExitCode()
		}
		text, _ := os.ReadFile(sent) // does not exist without an alarm
		if got != code || !strings.Contains(string(text), want) || want == "" && len(text) > 0 {
			t.Errorf("exit %d, alarm %q, want %d and %q: %s", got, text, code, want, out)
		}
		os.Remove(sent)
	}
	for m := range 3 {
		s.deliver(x, m, s.content(x, m))
	}
	step(10, "degraded "+name(x), `exec "$@"`)
	step(1, "failed "+name(x)+" predict: ended with 64, try 1 of 4: ", `export ENSEMBLE_MEMBERS_ON_MISSING=perhaps; exec "$@"`)
	s.deliver(x, 3, s.content(x, 3))
	step(0, "", `exec "$@"`)
}
