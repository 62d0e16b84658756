package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProcessStart: the start of a process is its time since boot in clock ticks, whatever its command is called. A process that has ended
// has none, also before its parent has noticed.
func TestProcessStart(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	sleeper := filepath.Join(t.TempDir(), ") S 1 (") // as if the command had ended
	if err := os.WriteFile(sleeper, text, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sleeper, "600")
	cmd.Args[0] = "sleep" // some programs choose their job by it
	before := uptime(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	start, err := processStart(cmd.Process.Pid)
	ticks, err2 := strconv.ParseFloat(start, 64)
	if at := ticks / 100; err != nil || err2 != nil || at < before-0.02 || at > uptime(t) { // USER_HZ is 100 on all architectures of Linux that Go has
		t.Errorf("start %q, %v: not from %.2f to %.2f s after boot", start, err, before, uptime(t))
	}
	if again, err := processStart(cmd.Process.Pid); again != start || err != nil {
		t.Errorf("then %q, %v", again, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for err == nil { // it ends soon, and is a zombie until it is waited for
		_, err = processStart(cmd.Process.Pid)
	}
	if !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a zombie: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if start, err := processStart(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) || start != "" {
		t.Errorf("no process: %q, %v", start, err)
	}
}

// uptime is the time since boot in seconds.
func uptime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Skip(err)
	}
	v, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestParseStart: what is cut is an error.
func TestParseStart(t *testing.T) {
	whole := "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242"
	if start, err := parseStart([]byte(whole)); err != nil || start != "4242" {
		t.Errorf("%q, %v", start, err)
	}
	for _, text := range []string{"", "7 (a", strings.TrimSuffix(whole, " 4242")} {
		if start, err := parseStart([]byte(text)); err == nil {
			t.Errorf("%q has the start %q", text, start)
		}
	}
	for _, state := range []string{"Z", "X"} {
		if _, err := parseStart([]byte(strings.Replace(whole, " S ", " "+state+" ", 1))); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("state %s: %v", state, err)
		}
	}
}

// TestThisProcess: an owner is known by its machine's boot, its container, its number and its start; two leases have two tokens.
func TestThisProcess(t *testing.T) {
	o := thisProcess()
	boot, err1 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, err2 := os.Readlink("/proc/self/ns/pid")
	if err := errors.Join(err1, err2); err != nil {
		t.Skip(err)
	}
	if want := strings.TrimSpace(string(boot)) + " " + namespace; o.Boot != want {
		t.Errorf("boot %q, want %q", o.Boot, want)
	}
	if start, err := processStart(os.Getpid()); o.PID != os.Getpid() || o.Start != start || start == "" || err != nil {
		t.Errorf("%d started at %q, want %d at %q, %v", o.PID, o.Start, os.Getpid(), start, err)
	}
	if other := thisProcess(); len(o.Token) != 32 || other.Token == o.Token || other.Start != o.Start {
		t.Errorf("%+v and %+v", o, other)
	}
	if since, err := time.Parse(time.RFC3339, o.Since); err != nil || time.Since(since).Abs() > time.Hour {
		t.Errorf("since %s, %v", o.Since, err)
	}
	if !(thisMachine{}).IsRunning(o) {
		t.Error("this process does not run")
	}
}

// TestAbandoned: the lease of a process of this machine that has ended is abandoned. That of one that runs is not, nor is one of
// another machine, boot or container.
func TestAbandoned(t *testing.T) {
	me := thisProcess()
	gone := me
	gone.Start = "1"
	for name, c := range map[string]struct {
		change func(o *Owner)
		want   bool
	}{
		"ended": {func(*Owner) {}, true}, "other machine": {func(o *Owner) { o.Host = "elsewhere" }, false}, "other boot": {func(o *Owner) { o.Boot = "other" }, false},
		"other container": {func(o *Owner) { o.Boot += "0" }, false}, "running": {func(o *Owner) { o.Start = me.Start }, false},
	} {
		o := gone
		c.change(&o)
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), lockFile)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := IsAbandoned(path); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if IsAbandoned(filepath.Join(t.TempDir(), "none")) {
		t.Error("no lease is abandoned")
	}
}

// TestReadable: others can read a lease, to name its owner, and not write it.
func TestReadable(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), lockFile)
	l, err := Take(path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode() != 0o644 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	var o Owner
	text, err := os.ReadFile(path)
	if err := errors.Join(err, json.Unmarshal(text, &o)); err != nil || o.Heartbeats != 1_000_000_000 || fmt.Sprint(o.PID) != fmt.Sprint(os.Getpid()) {
		t.Errorf("%s: %v", text, err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}
