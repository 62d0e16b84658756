package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/hook"
	"github.com/ensemble-weather/ensemble/ensemble/serve"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// hookStatus returns the field hook of /status.
func (s *resident) hookStatus() *hook.Status {
	s.Helper()
	_, body := s.get("/status")
	var status serve.Status
	if err := json.Unmarshal(body, &status); err != nil {
		s.Fatal(err)
	}
	return status.Hook
}

// TestServeHook: a webhook learns of degraded and of remade products, also if it was down and the service was killed
// meanwhile; the metrics and the status show what it does not know yet.
func TestServeHook(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	var down atomic.Bool
	var mu sync.Mutex
	var got []hook.Event
	ids := map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var e hook.Event
		if err := json.Unmarshal(body, &e); err != nil || r.Header.Get("webhook-signature") == "" || r.Header.Get("webhook-id") != e.Data.ID {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		ids[e.Data.ID] = true
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		got = append(got, e)
	}))
	t.Cleanup(receiver.Close)
	events := func() []hook.Event {
		mu.Lock()
		defer mu.Unlock()
		return append([]hook.Event{}, got...)
	}
	secret := f.put("hook.secret", []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	start := func() *resident {
		return f.serve("--run-dir", f.run, "--out", out, "--input", in, "--set", "members.poll=0.03s", "--set", "members.deadline=init+6h", "--set", "members.on_missing=degrade",
			"--set", "serve.retry_delay=0.05s", "--set", "serve.on_issue.url="+receiver.URL, "--set", "serve.on_issue.secret_file="+secret)
	}
	few := func(m testgrib.Message) bool { return m.Member >= 2 }
	down.Store(true)
	f.put("in/a.grib2", join(without(cycle(lastDay), few)...))
	s := start()
	s.awaitInit(lastDay, "degraded", "")
	eventually(t, "attempts", func() bool { h := s.hookStatus(); return h.Pending == 1 && h.Open[0].Attempts >= 2 })
	if h := s.hookStatus(); h.Open[0].Name != name(lastDay) || !strings.Contains(h.Open[0].Why, "502 Bad Gateway") {
		t.Errorf("%+v", h)
	}
	s.awaitMetric(`ensemble_hook_undelivered{state="pending"} 1`)
	if _, body := s.get("/metrics"); strings.Contains(string(body), "ensemble_hook_failures_total 0\n") {
		t.Error("no failures were counted")
	}
	s.stop(syscall.SIGKILL)
	down.Store(false)
	s = start()
	eventually(t, "the degraded products are delivered", func() bool { return len(events()) == 1 && s.hookStatus().Pending == 0 })
	s.awaitMetric(`ensemble_hook_undelivered{state="pending"} 0`)
	f.put("in/b.grib2", join(without(cycle(lastDay), func(m testgrib.Message) bool { return !few(m) })...))
	eventually(t, "the complete products are delivered", func() bool { return len(events()) == 2 })
	first, second := events()[0].Data, events()[1].Data
	if first.Status != "degraded" || second.Status != "ok" || second.Replaces != first.ID || len(ids) != 2 {
		t.Errorf("%+v\n%+v\n%d identifiers", first, second, len(ids))
	}
	sums := tree(t, filepath.Join(out, name(lastDay)))
	for _, file := range second.Files {
		if sums["/"+file.Path] != file.SHA256 {
			t.Errorf("%s has another checksum than %s", file.Path, file.SHA256)
		}
	}
	s.stop(syscall.SIGTERM)
}

// TestServeHookHangs: a command that hangs is ended after its time; products are issued meanwhile, and the service stops
// at once. A command that does not exist is refused at the start, and by a reload, which keeps the previous one.
func TestServeHookHangs(t *testing.T) {
	f := faulty(t)
	in, out := filepath.Join(f.dir, "in"), filepath.Join(f.dir, "out")
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	configure := func(words string) string {
		return f.put("serve.yaml", fmt.Appendf(nil, "members: {poll: 0.03s}\nserve: {retry_delay: 1h, on_issue: {command: [%s], timeout: 1s}}\n", words))
	}
	args := []string{"-c", configure("/no/such/program"), "--run-dir", f.run, "--out", out, "--input", in}
	f.expect(exit.Usage, []string{"serve.on_issue.command", "/no/such/program"}, append([]string{"serve"}, args...)...)
	configure("/bin/sh, -c, \"sleep 1000\"")
	s := f.serve(args...)
	day := lastDay
	for i := range 3 {
		f.put(fmt.Sprintf("in/%d.grib2", i), join(cycle(day)...))
		s.awaitInit(day, "issued", "")
		day = day.AddDate(0, 0, 1)
	}
	eventually(t, "all attempts are ended", func() bool {
		h := s.hookStatus()
		return h.Pending == 3 && h.Open[0].Attempts == 1 && h.Open[1].Attempts == 1 && h.Open[2].Attempts == 1
	})
	if h := s.hookStatus(); h.Calls != "command" || !strings.Contains(h.Open[0].Why, "it took longer than serve.on_issue.timeout, 1s, and was ended") || h.Open[0].NextAttempt == nil {
		t.Errorf("%+v", h)
	}
	if resp, page := s.get("/"); resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "by command; 3 pending, 0 given up") || strings.Count(string(page), "it took longer than serve.on_issue.timeout") != 3 {
		t.Errorf("%s %s", resp.Status, page)
	}
	configure("/no/such/program")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.awaitLog("the configuration was rejected", 1)
	if h := s.hookStatus(); h == nil || h.Pending != 3 {
		t.Errorf("after a refused reload: %+v", h)
	}
	configure("/bin/sh, -c, \"sleep 1000\"")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.awaitLog("the configuration was reloaded", 1)
	begun := time.Now()
	if code := s.stop(syscall.SIGTERM); code != exit.SaveAndStop || time.Since(begun) > patience {
		t.Errorf("exit %d after %s", code, time.Since(begun))
	}
}

// TestHookSecret: the command that docs/operations.md prints writes a secret that only its owner reads and that a hook accepts.
func TestHookSecret(t *testing.T) {
	f := faulty(t)
	var line string
	for _, b := range rawBlocks(t, operationsPage) {
		if strings.Contains(b.text, "umask") {
			line = b.text
		}
	}
	line = strings.ReplaceAll(line, "/etc/ensemble", f.dir)
	if text, err := exec.Command("bash", "-c", line).CombinedOutput(); err != nil || line == "" {
		t.Fatalf("%q: %v\n%s", line, err, text)
	}
	path := filepath.Join(f.dir, "hook.secret")
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st, err)
	}
	h, err := hook.Open(hook.Options{Out: f.dir, File: filepath.Join(f.dir, ".serve", "hook.json"), Call: config.Hook{URL: "https://receiver.example.org/issued", SecretFile: config.Path(path)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil || h.Status().Calls != "webhook" {
		t.Errorf("%v", err)
	}
}
