//go:build long

package main

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

// victim is a command that is killed repeatedly.
type victim struct {
	name  string
	kills int      // at least
	args  []string // constant: products record their command
	out   string   // its output, removed before each new round
	// done returns the checksums of the finished output, "" if there is none. It fails the test if output is
	// incomplete.
	done   func(t *testing.T) string
	stays  bool // does not end by itself; it is stopped when all output is complete
	rivals bool // a second process may be started, which waits and is not killed
}

// TestLongKills kills the program (SIGKILL) at random moments, more than two hundred times over all commands that
// write, and reruns the same command each time. There are never partial files, no lock remains that blocks the
// next process, and the result has the checksums of an uninterrupted run.
func TestLongKills(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000") // so that products have the same bytes
	f := faulty(t)
	past := time.Now().Add(-time.Hour)
	for i := range 3 {
		c := lastDay.AddDate(0, 0, i)
		if err := os.Chtimes(f.put("fc_"+name(c)+".grib2", join(cycle(c)...)), past, past); err != nil {
			t.Fatal(err)
		}
	}
	input := filepath.Join(f.dir, "fc_*.grib2")
	dir := func(name string) string { return filepath.Join(f.dir, name) }
	for _, v := range []victim{
		{name: "predict", kills: 60, out: dir("predict"), rivals: true, done: products(dir("predict"), 3),
			args: []string{"predict", "--run-dir", f.run, "--input", input, "--out", dir("predict"), "--format", "netcdf,grib2,zarr", "--threads", "1", "--progress", "none", "--deadline", "+2m", "--set", "members.poll=0.1s"}},
		{name: "data prepare", kills: 50, out: dir("store"), done: store(dir("store")),
			args: []string{"data", "prepare", "-c", archive(t), "--out", dir("store"), "--shard-size", "400KiB", "--memory", "8MiB", "--progress", "none"}},
		{name: "train", kills: 50, out: dir("run"), done: training(dir("run")),
			args: []string{"train", "-c", f.config, "--set", "train.epochs=4", "--run-dir", dir("run"), "--resume", "auto", "--progress", "none"}},
		{name: "serve", kills: 50, out: dir("serve"), stays: true, done: products(dir("serve"), 3),
			args: []string{"serve", "--listen", "unix:" + dir("http"), "--run-dir", f.run, "--input", input, "--out", dir("serve"), "--threads", "1", "--set", "members.poll=0.1s"}},
	} {
		t.Run(v.name, v.disturb)
	}
}

func (v victim) start(t *testing.T) (cmd *exec.Cmd, out *printed, ended <-chan error) {
	t.Helper()
	cmd, out = exec.Command(os.Args[0], v.args...), &printed{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return cmd, out, done
}

// disturb compares the output of a command that is killed with that of an uninterrupted run.
func (v victim) disturb(t *testing.T) {
	begun := time.Now()
	v.toEnd(t, time.Hour)
	took := time.Since(begun)
	want := v.done(t)
	if want == "" {
		t.Fatal("no output")
	}
	r := rand.New(rand.NewPCG(11, 12))
	kills, rounds, concurrent := 0, 0, 0
	for kills < v.kills {
		if err := os.RemoveAll(v.out); err != nil {
			t.Fatal(err)
		}
		for try := 0; ; try++ {
			var rival <-chan error
			var output *printed
			if v.rivals && r.IntN(4) == 0 {
				_, output, rival = v.start(t)
				concurrent++
			}
			// Each attempt runs longer, so that each round is finished.
			ended := v.toEnd(t, time.Duration(r.Int64N(int64(took)*int64(try+3)/3+1)))
			if !ended {
				kills++
			}
			if rival != nil {
				if err := <-rival; err != nil {
					t.Fatalf("next to a killed process: %v: %s", err, output)
				}
				ended = true
			}
			if got := v.done(t); ended && got != want || got != "" && !strings.Contains(want, got) {
				t.Fatalf("after %d kills:\n%s\nwant\n%s", kills, got, want)
			}
			if ended {
				break
			}
		}
		rounds++
		if err := filepath.WalkDir(v.out, func(path string, _ fs.DirEntry, err error) error {
			if n := filepath.Base(path); filepath.Base(filepath.Dir(path)) == "reference" {
				return err // several processes may write it, each file atomically
			} else if strings.Contains(n, ".lock") || strings.Contains(n, ".partial-") {
				t.Errorf("%s remains", path)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%s: killed %d times in %d runs to the end, %d of them with a concurrent process; an undisturbed run takes %s. Output is always complete, checksums are those of the undisturbed run, no lock remains",
		v.name, kills, rounds, concurrent, took.Round(time.Millisecond))
}

// toEnd runs the command until it ends, or kills it after some time.
func (v victim) toEnd(t *testing.T, kill time.Duration) (ended bool) {
	t.Helper()
	cmd, out, gone := v.start(t)
	timer, look := time.NewTimer(kill), time.NewTicker(20*time.Millisecond)
	var made time.Time // when all output was complete
	defer timer.Stop()
	defer look.Stop()
	want := exit.OK
	for {
		select {
		case <-timer.C:
			if want == exit.OK {
				_ = cmd.Process.Kill() // it may have ended
			}
		case <-look.C:
			// Before the service listens it may not handle signals yet.
			if !v.stays || want != exit.OK || strings.Count(v.done(t), "finished") < 3 || !strings.Contains(out.String(), "listening") {
				continue
			}
			if made.IsZero() {
				made = time.Now()
			}
			// A process that finds complete output and the lock of a killed one needs time to remove the lock.
			if locks, _ := filepath.Glob(filepath.Join(v.out, ".*.lock")); len(locks) == 0 || time.Since(made) > 10*time.Second {
				want = exit.SaveAndStop
				_ = cmd.Process.Signal(syscall.SIGTERM)
			}
		case <-gone:
			state := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if state.Signaled() && state.Signal() == syscall.SIGKILL {
				return false
			}
			if exit.Code(state.ExitStatus()) != want {
				t.Fatalf("%q: exit %d, want %d: %s", v.args, state.ExitStatus(), want, out)
			}
			return true
		}
	}
}
