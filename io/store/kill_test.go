package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// Environment variables of a child process that writes the small store.
const (
	childDir   = "ENSEMBLE_STORE_TEST_DIR"
	childStage = "ENSEMBLE_STORE_TEST_STAGE" // "STAGE:N": exit when the stage is reached for the N-th time
	childSlow  = "ENSEMBLE_STORE_TEST_SLOW"  // wait at each stage
	childKill  = "ENSEMBLE_STORE_TEST_KILL"  // replace another store, and be killed at the N-th operation that changes files
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child writes the small store and returns the exit code.
func child(dir string) int {
	stage, count, _ := strings.Cut(os.Getenv(childStage), ":")
	left, _ := strconv.Atoi(count)
	testHook = func(s string) {
		if os.Getenv(childSlow) != "" {
			time.Sleep(3 * time.Millisecond)
		}
		if s == stage {
			if left--; left == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	p, _ := plan(Int16, 7)
	o := sizes(p)
	o.Workers = 1 // one worker counts the stages
	if n, err := strconv.Atoi(os.Getenv(childKill)); err == nil {
		p, o = replacing()
		faultfs.Use(faultfs.Fault{N: n, Of: faultfs.Changing, Kill: true, Part: n%2 == 0})
	}
	_, err := Write(context.Background(), dir, p, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return int(exit.CodeOf(err))
}

// inChild writes the small store in a process of its own.
func inChild(dir string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	cmd.Stderr = &strings.Builder{}
	return cmd
}

// reference returns the digests of the small store, written without interruption.
func reference(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	p, _ := plan(Int16, 7)
	write(t, dir, p, sizes(p))
	return digests(t, dir)
}

// TestKilledAtStages: after a process was killed at any stage, the next one
// completes the same store without help. Until store.json exists, a reader finds no
// store.
func TestKilledAtStages(t *testing.T) {
	want := reference(t)
	for _, c := range []struct {
		stage string
		times int // that it is reached
	}{{"shard opened", 3}, {"fields written", 7}, {"start sealed", 7}, {"shard renamed", 3}, {"journal written", 3}, {"index written", 1}, {"sums written", 1}, {"description written", 1}} {
		for n := 1; n <= c.times; n++ {
			dir := t.TempDir()
			cmd := inChild(dir, fmt.Sprintf("%s=%s:%d", childStage, c.stage, n))
			if err := cmd.Run(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("%s %d: the process was not killed: %v", c.stage, n, err)
			}
			s, err := Open(context.Background(), dir, OpenOptions{})
			if (err == nil) != (c.stage == "description written") || err != nil && exit.CodeOf(err) != exit.NotYet {
				t.Errorf("%s %d: opened: %v", c.stage, n, err)
			}
			if err == nil {
				s.Close()
			}
			if cmd = inChild(dir); cmd.Run() != nil {
				t.Errorf("%s %d: going on: %v", c.stage, n, cmd.Stderr)
			}
			if got := digests(t, dir); got != want {
				t.Errorf("%s %d:\n%s\nwant\n%s", c.stage, n, got, want)
			}
		}
		// Once more than the stage is reached: the list above is complete.
		dir := t.TempDir()
		if cmd := inChild(dir, fmt.Sprintf("%s=%s:%d", childStage, c.stage, c.times+1)); cmd.Run() != nil {
			t.Errorf("%s is reached more than %d times: %v", c.stage, c.times, cmd.Stderr)
		}
	}
}

// replacing is a store that replaces another one, by one worker, so that its operations have one order.
func replacing() (Plan, Options) {
	p, _ := plan(BFloat16, 4)
	o := sizes(p)
	o.Workers, o.Overwrite = 1, true
	return p, o
}

// TestFault23Replaced: a process is killed at an operation, one of 25, while it replaces a store. The folder has the old store or the
// new one, whole, and the next run completes the new one without help.
func TestFault23Replaced(t *testing.T) {
	const every = 25
	killReplacing(t, 1+rand.New(rand.NewPCG(testseed.Of(t), 0)).IntN(every), every)
}

// killReplacing kills a process that replaces a store at the first of its operations on files, and at each every-th after it.
func killReplacing(t *testing.T, first, every int) {
	old, _ := plan(Int16, 7)
	p, o := replacing()
	template, fresh := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "store")
	write(t, template, old, sizes(old))
	write(t, fresh, p, o)
	before, after := digests(t, template), digests(t, fresh)
	for n := first; ; n += every {
		dir := filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
			t.Fatal(err)
		}
		cmd := inChild(dir, fmt.Sprintf("%s=%d", childKill, n))
		err := cmd.Run()
		if err != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("operation %d: %v: %v", n, err, cmd.Stderr)
		}
		if wrong := checkWhole(t, dir, before, after, err == nil); wrong != nil {
			t.Errorf("killed at operation %d: %v", n, wrong)
		}
		if _, err := Write(context.Background(), dir, p, o); err != nil {
			t.Errorf("killed at operation %d: the next run: %v", n, err)
		}
		if wrong := errors.Join(checkWhole(t, dir, before, after, true), onlyStore(dir)); wrong != nil {
			t.Errorf("killed at operation %d: after the next run: %v", n, wrong)
		}
		if err == nil {
			break
		}
	}
}

// TestKilledAtRandom: likewise at random times, repeatedly in one directory.
func TestKilledAtRandom(t *testing.T) {
	want := reference(t)
	r := rand.New(rand.NewPCG(1, 2))
	kills := 0
	for kills < 60 {
		dir := t.TempDir()
		for try := 0; ; try++ {
			cmd := inChild(dir, childSlow+"=1")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// The delay grows: on a busy machine a process may need all of the
			// first ones to start.
			time.AfterFunc(time.Duration(10+r.IntN(150+10*try))*time.Millisecond, func() { cmd.Process.Kill() })
			err := cmd.Wait()
			if err == nil {
				break
			}
			if cmd.ProcessState.ExitCode() >= 0 {
				t.Fatalf("after %d kills: %v: %v", kills, err, cmd.Stderr)
			}
			kills++
		}
		if got := digests(t, dir); got != want {
			t.Errorf("after %d kills:\n%s\nwant\n%s", kills, got, want)
		}
	}
}

// TestDamagedShardIsMadeAgain: a shard that differs from its journal is written
// again.
func TestDamagedShardIsMadeAgain(t *testing.T) {
	want := reference(t)
	for _, damage := range []func(path string) error{
		os.Remove,
		func(path string) error { return os.Truncate(path, 4096) },
		func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte{77}, 5000)
			return err
		},
	} {
		dir := t.TempDir()
		inChild(dir, childStage+"=index written:1").Run()
		if err := damage(filepath.Join(dir, shardName(1))); err != nil {
			t.Fatal(err)
		}
		p, _ := plan(Int16, 7)
		if r := write(t, dir, p, sizes(p)); r.Reused != 2 {
			t.Errorf("%d shards were kept, want 2", r.Reused)
		}
		if got := digests(t, dir); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestTwoWriters: the second writer is rejected while the first runs, and the first
// continues.
func TestTwoWriters(t *testing.T) {
	dir := t.TempDir()
	p, _ := plan(Int16, 7)
	inside := make(chan struct{})
	goOn := make(chan struct{})
	o := sizes(p)
	first := true
	o.Workers = 1
	o.Progress = func(int, int) {
		if first {
			first = false
			close(inside)
			<-goOn
		}
	}
	done := make(chan error)
	go func() {
		_, err := Write(context.Background(), dir, p, o)
		done <- err
	}()
	<-inside
	cmd := inChild(dir)
	err := cmd.Run()
	if code := exit.Code(cmd.ProcessState.ExitCode()); err == nil || code != exit.CannotWrite {
		t.Errorf("the second writer: %v: %v", err, cmd.Stderr)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, want := digests(t, dir), reference(t); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestFullDisk: a write without space is exit 74. Finished shards stay, no partial
// file is left, and with more space the command resumes.
func TestFullDisk(t *testing.T) {
	want := reference(t)
	whole := t.TempDir()
	p, _ := plan(Int16, 7)
	shard := write(t, whole, p, sizes(p)).Meta.Shards[0].Size
	// A limit of the file's size, in blocks of 512 bytes (POSIX): below a shard, and below
	// store.json alone. SIGXFSZ is blocked as shells of batch systems do.
	for _, limit := range []int64{shard - 4096, shard / 3} {
		dir := t.TempDir()
		cmd := inChild(dir)
		cmd.Args = []string{"sh", "-c", fmt.Sprintf("trap '' XFSZ; ulimit -f %d; exec %s", limit/512, os.Args[0])}
		cmd.Path = "/bin/sh"
		err := cmd.Run()
		if code := exit.Code(cmd.ProcessState.ExitCode()); err == nil || code != exit.IO || !strings.Contains(cmd.Stderr.(*strings.Builder).String(), "limit") {
			t.Errorf("limit %d: exit %d: %v", limit, code, cmd.Stderr)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, "*", ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		if cmd = inChild(dir); cmd.Run() != nil {
			t.Error(cmd.Stderr)
		}
		if got := digests(t, dir); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestSmallFileSystem: likewise on a full file system, if one is available.
func TestSmallFileSystem(t *testing.T) {
	dir := t.TempDir()
	size := 100 << 10 // less than the store
	script := fmt.Sprintf("mount -t tmpfs -o size=%d none %s && %s; code=$?; ls -A %[2]s; exit $code", size, dir, os.Args[0])
	cmd := exec.Command("unshare", "-m", "sh", "-c", script)
	cmd.Env = append(os.Environ(), childDir+"="+filepath.Join(dir, "store"))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || strings.Contains(string(out), "unshare") || strings.Contains(string(out), "mount:") {
		t.Skipf("skipped: no file system can be mounted here: %v: %s", err, out)
	}
	if code := exit.Code(cmd.ProcessState.ExitCode()); code != exit.IO || !strings.Contains(string(out), "no space left") {
		t.Errorf("exit %d: %s", code, out)
	}
}

// TestFault23MountPoint: a process is killed while it replaces a store in a mount point, which can take the place of no folder. The folder
// has the old store, and the next run completes the new one without help.
func TestFault23MountPoint(t *testing.T) {
	old, _ := plan(Int16, 7)
	p, o := replacing()
	template, fresh, dir, killed, completed := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	write(t, template, old, sizes(old))
	write(t, fresh, p, o)
	script := fmt.Sprintf("mount -t tmpfs none %[1]s && cp -a %[2]s/. %[1]s || exit 99; %[3]s=%[4]d %[5]s; test -d %[1]s/%[6]s && cp -a %[1]s/. %[7]s || exit 98; %[3]s=1000000 %[5]s && cp -a %[1]s/. %[8]s",
		dir, template, childKill, 60, os.Args[0], withinName, killed, completed)
	cmd := exec.Command("unshare", "-m", "sh", "-c", script)
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || strings.Contains(string(out), "unshare") || strings.Contains(string(out), "mount:") {
		t.Skipf("skipped: no file system can be mounted here: %v: %s", err, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(killed, withinName)); err != nil { // no part of the store
		t.Fatal(err)
	}
	if err := checkWhole(t, killed, digests(t, template), digests(t, fresh), false); err != nil {
		t.Errorf("after the kill: %v", err)
	}
	if err := checkWhole(t, completed, "", digests(t, fresh), true); err != nil {
		t.Errorf("after the next run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(completed, withinName)); err == nil {
		t.Error("the folder of the replacement stays")
	}
}

// TestStartedTogether: of two writers that start at the same time one may be
// rejected, and the store is complete.
func TestStartedTogether(t *testing.T) {
	want := reference(t)
	for range 20 {
		dir := t.TempDir()
		both := []*exec.Cmd{inChild(dir), inChild(dir)}
		for _, cmd := range both {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
		}
		done := 0
		for _, cmd := range both {
			cmd.Wait() // its exit code is looked at
			switch code := exit.Code(cmd.ProcessState.ExitCode()); code {
			case exit.OK:
				done++
			case exit.CannotWrite:
			default:
				t.Errorf("exit %d: %v", code, cmd.Stderr)
			}
		}
		if got := digests(t, dir); done == 0 || got != want {
			t.Errorf("%d were done:\n%s\nwant\n%s", done, got, want)
		}
	}
}
