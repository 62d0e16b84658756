package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/testgrib"
)

// The tests below and those of suites_test.go run the suites of docs/ops with their schedulers.

// site is the site of a suite, with the folders of forecasts and products.
type site struct {
	*testing.T
	root, ops, input, products, logs string
	inits                            []time.Time
	members                          int
	due                              time.Time // when the suite may begin with the last initialisation; zero: at once
	env                              []string
	daemons                          []*printed
	beforeLate                       func() // called before late input comes; nil: none
}

// printed collects the output of a process.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// halfDays returns the initialisations of the given number of days, at 00 and 12 UTC.
func halfDays(first time.Time, days int) (out []time.Time) {
	for i := range 2 * days {
		out = append(out, first.Add(time.Duration(i)*12*time.Hour))
	}
	return out
}

// otherZone is a time zone in which each initialisation seems to be 14 hours ago when it begins.
const otherZone = "TZ=XST-14"

// newSite creates a site with a trained model. Its time zone is not UTC.
func newSite(t *testing.T, run string, inits []time.Time, members int) *site {
	t.Helper()
	root, err := os.MkdirTemp("/tmp", "ensemble-site") // schedulers need short names without blanks
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endAll(root)
		os.RemoveAll(root)
	})
	at := func(name string) string { return filepath.Join(root, name) }
	s := &site{T: t, root: root, ops: at("ops"), input: at("fc"), products: at("products"), logs: at("logs"), inits: inits, members: members}
	if err := os.CopyFS(s.ops, os.DirFS("../../docs/ops")); err != nil {
		t.Fatal(err)
	}
	program, err := filepath.Abs(os.Args[0])
	if err == nil {
		err = os.MkdirAll(s.input, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, v := range [][2]string{{"ENSEMBLE", program}, {"RUN_DIR", run}, {"INPUT", s.input}, {"PRODUCTS", s.products}, {"LOGS", s.logs},
		{"DEADLINE", "+1s"}, {"AMEND_DEADLINE", "init+1s"}, {"RETRY_DELAY", "0.1s"}, {"XDG_CACHE_HOME", os.Getenv("XDG_CACHE_HOME")}, {"ENSEMBLE_DECODE", os.Getenv("ENSEMBLE_DECODE")},
		{"ENSEMBLE_MEMBERS_POLL", "0.1s"}, {"ENSEMBLE_MEMBERS_EXPECTED", strconv.Itoa(members)}, {"ENSEMBLE_MEMBERS_MINIMUM", strconv.Itoa(members / 2)}, {"GOMAXPROCS", "1"},
		{"SOURCE_DATE_EPOCH", "1000000000"}} { // products of the same input are equal
		fmt.Fprintf(&text, "export %s=\"${%[1]s:-%s}\"\n", v[0], v[1])
	}
	s.prepend(text.String())
	s.env = append(os.Environ(), "OPS="+s.ops, "SITE="+s.siteFile(), "HOME="+root, "LC_ALL=C.UTF-8", otherZone)
	return s
}

// endAll kills the processes with the folder of a site in their command lines: what a scheduler started and left.
func endAll(root string) {
	for _, pid := range processesWith(root + "/") {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// processesWith returns the processes with a text in their command lines.
func processesWith(text string) (pids []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range found {
		line, err := os.ReadFile(path) // the process may have ended
		if pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && bytes.Contains(line, []byte(text)) && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (s *site) siteFile() string { return filepath.Join(s.ops, "site.sh") }

// prepend adds lines to the begin of site.sh.
func (s *site) prepend(lines string) {
	s.Helper()
	old, err := os.ReadFile(s.siteFile())
	if err == nil {
		err = os.WriteFile(s.siteFile(), []byte(lines+string(old)), 0o644)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// program finds a program of a scheduler, and skips the test without it.
func (s *site) program(name string, more ...string) string {
	s.Helper()
	for _, path := range append(more, name) {
		if found, err := exec.LookPath(path); err == nil {
			if found, err = filepath.Abs(found); err == nil {
				return found
			}
		}
	}
	s.Skipf("skipped: no %s here (scripts/setup.sh test installs it)", name)
	return ""
}

// run runs a command and waits for its end.
func (s *site) run(name string, args ...string) string {
	s.Helper()
	out, err := s.try(name, args...)
	if err != nil {
		s.Fatalf("%s %q: %v\n%s\n%s", name, args, err, out, s.logTails())
	}
	return out
}

// commandLimit is the longest time of a command of a site, and of what a test of one step waits for.
const commandLimit = 3 * time.Minute

func (s *site) try(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = s.env, s.ops
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// daemon runs a command in the background, and stops it at the end of the test.
func (s *site) daemon(name string, args ...string) (out *printed, ended <-chan error) {
	s.Helper()
	cmd := exec.Command(name, args...)
	out = &printed{}
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.env, s.ops, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	s.daemons = append(s.daemons, out)
	done, gone := make(chan error, 1), make(chan struct{})
	go func() {
		done <- cmd.Wait()
		close(gone)
	}()
	s.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-gone
		}
	})
	return out, done
}

// name formats an init for file names.
func name(c time.Time) string { return c.Format("2006010215") }

func (s *site) file(c time.Time, member int) string {
	return filepath.Join(s.input, fmt.Sprintf("fc_%s_m%02d.grib2", name(c), member))
}

// content returns the file of one member at an init.
func (s *site) content(c time.Time, member int) []byte {
	return join(without(cycleOf(c, s.members), func(m testgrib.Message) bool { return m.Member != member })...)
}

// deliver puts a file in place by renaming it, like a file transfer.
func (s *site) deliver(c time.Time, member int, text []byte) {
	s.Helper()
	tmp := filepath.Join(filepath.Dir(s.input), "arriving")
	err := os.WriteFile(tmp, text, 0o644)
	if err == nil {
		err = os.Rename(tmp, s.file(c, member))
	}
	if err != nil {
		s.Fatal(err)
	}
}

// product returns the status and the checksums of the products of an initialisation, "" if there are none.
func (s *site) product(x time.Time) (status, sums string) {
	s.Helper()
	dir := filepath.Join(s.products, name(x))
	text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		return "", ""
	}
	check := exec.Command("sha256sum", "-c", "--strict", "--quiet", "SHA256SUMS")
	check.Dir = dir
	if wrong, err := check.CombinedOutput(); err != nil {
		s.Errorf("%s: %v: %s", dir, err, wrong)
	}
	var manifest struct{ Status string }
	if got, err := os.ReadFile(filepath.Join(dir, "manifest.json")); err != nil || json.Unmarshal(got, &manifest) != nil {
		s.Errorf("%s: %v: %.200s", dir, err, got)
	}
	return manifest.Status, string(text)
}

// undisturbed returns the checksums of the products made from complete input, by initialisation, and removes all files.
func (s *site) undisturbed(inits []time.Time) map[time.Time]string {
	s.Helper()
	want := map[time.Time]string{}
	for _, x := range inits {
		for m := range s.members {
			s.deliver(x, m, s.content(x, m))
		}
		s.run(filepath.Join(s.ops, "step.sh"), "predict", name(x))
		_, want[x] = s.product(x)
	}
	for _, dir := range []string{s.products, s.input, s.logs} {
		if err := os.RemoveAll(dir); err != nil {
			s.Fatal(err)
		}
	}
	if err := os.Mkdir(s.input, 0o755); err != nil {
		s.Fatal(err)
	}
	return want
}

// alarms returns the alarms that were sent: kind and init.
func (s *site) alarms() (out []string) {
	text, _ := os.ReadFile(filepath.Join(s.logs, "alarms"))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 3 {
			out = append(out, f[1]+" "+f[2])
		}
	}
	return out
}

// delivered returns the states of the products that were delivered of each initialisation, in order.
func (s *site) delivered() map[string][]string {
	out := map[string][]string{}
	text, _ := os.ReadFile(filepath.Join(s.logs, "delivered"))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			out[f[1]] = append(out[f[1]], f[2])
		}
	}
	return out
}

// predictions returns the processes that were started to predict an initialisation, with their times.
func (s *site) predictions(x time.Time) (pids []int, times []time.Time) {
	text, _ := os.ReadFile(filepath.Join(s.logs, "predict.jsonl"))
	for line := range bytes.Lines(text) {
		var r struct {
			Time         time.Time
			Msg, Command string
			PID          int
		}
		if json.Unmarshal(line, &r) == nil && r.Msg == "begin" && strings.Contains(r.Command, "--init "+name(x)+" ") {
			pids, times = append(pids, r.PID), append(times, r.Time)
		}
	}
	return pids, times
}

// until waits until a condition holds.
func (s *site) until(what string, is func() bool) {
	s.Helper()
	s.within(10*time.Minute, what, is)
}

// within waits until a condition holds, at most for a time.
func (s *site) within(limit time.Duration, what string, is func() bool) {
	s.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("timeout after %v waiting for %s\n%s", limit, what, s.logTails())
		}
	}
}

// runningStep is a run of step.sh that is killed after commandLimit.
type runningStep struct {
	*exec.Cmd
	site *site
	out  printed
	ctx  context.Context
}

// start starts step.sh with further variables of the environment.
func (s *site) start(step string, x time.Time, env ...string) *runningStep {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), commandLimit)
	s.Cleanup(cancel)
	r := &runningStep{Cmd: exec.CommandContext(ctx, filepath.Join(s.ops, "step.sh"), step, name(x)), site: s, ctx: ctx}
	r.Env = append(s.env[:len(s.env):len(s.env)], env...)
	r.Stdout, r.Stderr, r.WaitDelay = &r.out, &r.out, time.Second // what it started may hold its output
	if err := r.Start(); err != nil {
		s.Fatal(err)
	}
	return r
}

// end waits for the end of the step, for which the test waits with a reason, and returns its exit code.
func (r *runningStep) end(awaited string) int {
	r.site.Helper()
	err := r.Wait()
	if r.ctx.Err() != nil {
		r.site.Fatalf("%q has not ended after %v: awaited %s\n%s\n%s", r.Args[1:], commandLimit, awaited, &r.out, r.site.logTails())
	}
	var e *exec.ExitError
	if err != nil && !errors.As(err, &e) {
		r.site.Fatal(err)
	}
	return r.ProcessState.ExitCode()
}

// alarmed reports whether an alarm was sent.
func (s *site) alarmed(want string) bool { return slices.Contains(s.alarms(), want) }

// logTails returns the last lines of all logs.
func (s *site) logTails() string {
	out, _ := exec.Command("sh", "-c", `tail -n 12 "$1"/* 2>/dev/null; ls -la "$2" "$3"`, "sh", s.logs, s.input, s.products).CombinedOutput()
	text := string(out)
	for _, d := range s.daemons {
		text += "\n" + d.String()
	}
	return text
}

// freePort returns a port that is not in use and outside the range that the system assigns.
func freePort(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		port := strconv.Itoa(12_000 + rand.IntN(20_000)) // Linux assigns ports from 32768
		var l net.Listener
		if l, err = net.Listen("tcp", ":"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal(err)
	return ""
}

// TestStep runs step.sh, which all suites use, with every outcome of a step.
func TestStep(t *testing.T) {
	f := faulty(t)
	s := newSite(t, f.run, halfDays(lastDay, 1), 4)
	x := s.inits[0]
	alarm := ""
	ends := func(step string, code int, alarms, delivered string, env ...string) {
		t.Helper()
		r := s.start(step, x, env...)
		got := r.end(fmt.Sprintf("exit code %d, alarms %q", code, alarms))
		out := r.out.String()
		if got != code || strings.Join(s.alarms(), ", ") != alarms || strings.Join(s.delivered()[name(x)], ", ") != delivered || out != "" && !strings.Contains(out, "Killed") { // bash reports killed processes
			t.Errorf("%s: exit %d, alarms %q, delivered %q, want %d, %q, %q: %s%s", step, got, s.alarms(), s.delivered(), code, alarms, delivered, out, s.logTails())
		}
		text, _ := os.ReadFile(filepath.Join(s.logs, "alarms")) // the file does not exist without alarms
		alarm = string(text)
		os.Remove(filepath.Join(s.logs, "alarms"))
		os.Remove(filepath.Join(s.logs, "delivered"))
	}
	alarmContains := func(want string) {
		t.Helper()
		if !strings.Contains(alarm, want) {
			t.Errorf("the alarm is %q, not %q", alarm, want)
		}
	}
	script := func(text string) string {
		path := filepath.Join(s.root, "script.sh")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ends("predict", 11, "late "+name(x), "")
	alarmContains("*" + name(x) + "*.grib2") // the missing files
	ends("amend", 1, "gave_up "+name(x), "")
	ends("deliver", 1, "failed "+name(x), "", "TRIES=2")
	alarmContains("try 2 of 2")
	ends("predict", 1, "failed "+name(x), "", "ENSEMBLE=/none")
	alarmContains("/none cannot be run")
	ends("predict", 1, "failed "+name(x), "", "ENSEMBLE="+script("kill -9 $$\n"), "TRIES=3")
	alarmContains("ended with 137, try 3 of 3")
	ends("predict", 1, "failed "+name(x), "", "ENSEMBLE_MEMBERS_ON_MISSING=perhaps")
	alarmContains("ended with 64, try 1 of 4")
	before, _ := s.predictions(x)
	waiting := s.start("predict", x, "DEADLINE=+10m")
	s.within(commandLimit, "a prediction", func() bool { now, _ := s.predictions(x); return len(now) > len(before) })
	if err := waiting.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := waiting.end("its end by SIGTERM"); code != 75 || len(s.alarms()) > 0 {
		t.Errorf("stopped: exit %d, alarms %q", code, s.alarms())
	}
	for m := 1; m < 4; m++ {
		s.deliver(x, m, s.content(x, m))
	}
	ends("predict", 11, "refused "+name(x), "") // no control
	s.deliver(x, 0, s.content(x, 0))
	if err := os.Remove(s.file(x, 3)); err != nil {
		t.Fatal(err)
	}
	amending := s.start("amend", x, "AMEND_DEADLINE=+10m", "AMEND_EVERY=1")
	s.within(commandLimit, "a degraded product", func() bool { return s.delivered()[name(x)] != nil }) // the first one of this initialisation
	s.deliver(x, 3, s.content(x, 3))
	if code := amending.end("its end with all members"); code != 0 || strings.Join(s.delivered()[name(x)], ", ") != "degraded, ok" || len(s.alarms()) > 0 {
		t.Errorf("amend: exit %d, delivered %q, alarms %q", code, s.delivered(), s.alarms())
	}
	for _, path := range []string{s.products, filepath.Join(s.logs, "delivered"), s.file(x, 3)} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	ends("predict", 10, "degraded "+name(x), "")
	ends("deliver", 0, "", "degraded", "DELIVER="+script(`[ -e "$0.second" ] || { touch "$0.second"; exit 65; }; exec "$OPS/deliver.sh" "$1"`))
	ends("amend", 0, "", "")
	ends("amend", 12, "", "", "AMEND_DEADLINE=+10m", "AMEND_WAIT=1")
	s.deliver(x, 3, s.content(x, 3))
	ends("amend", 0, "", "ok", "AMEND_DEADLINE=+10m", "AMEND_WAIT=5")
	ends("amend", 0, "", "")
	ends("predict", 0, "", "")
	if status, _ := s.product(x); status != "ok" {
		t.Errorf("the product is %q", status)
	}
}
