package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

const lockFile = "run.lock"

// TestDeadOwner: the lease is taken over if its owner is a dead process of this
// machine, a process whose PID was reused, or a process of another machine without
// a heartbeat. The lease of another machine with a heartbeat is not.
func TestDeadOwner(t *testing.T) {
	oldBeat, oldSilence := heartbeatInterval, leaseTimeout
	heartbeatInterval = 20 * time.Millisecond
	t.Cleanup(func() { heartbeatInterval, leaseTimeout = oldBeat, oldSilence })
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	me := thisProcess()
	ahead := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		name  string
		o     Owner
		beats bool
		free  bool
	}{
		{"process gone", Owner{Host: me.Host, Boot: me.Boot, PID: gone.Process.Pid, Start: "1", Token: "a"}, false, true},
		{"number used again", Owner{Host: me.Host, Boot: me.Boot, PID: me.PID, Start: "1", Token: "a"}, false, true},
		{"alive", Owner{Host: me.Host, Boot: me.Boot, PID: me.PID, Start: me.Start, Token: "a"}, false, false},
		{"machine started again", Owner{Host: me.Host, Boot: "other", PID: 1, Token: "a"}, false, true},
		{"other machine, silent", Owner{Host: "elsewhere", Boot: "other", PID: 1, Token: "a"}, false, true},
		{"other machine, beating", Owner{Host: "elsewhere", Boot: "other", PID: 1, Token: "a"}, true, false},
		{"other machine, this one's number", Owner{Host: "elsewhere", Boot: "other", PID: me.PID, Start: me.Start, Token: "a"}, false, true},
		{"other machine, this one's number, beating", Owner{Host: "elsewhere", Boot: "other", PID: me.PID, Start: me.Start, Token: "a"}, true, false},
		{"by a clock that is ahead", Owner{Host: me.Host, Boot: me.Boot, PID: gone.Process.Pid, Start: "1", Token: "a", Since: ahead, Time: ahead}, false, true},
		{"other machine, by a clock that is ahead", Owner{Host: "elsewhere", Boot: "other", PID: 1, Token: "a", Since: ahead, Time: ahead}, false, true},
		{"alive, by a clock that is ahead", Owner{Host: "elsewhere", Boot: "other", PID: 1, Token: "a", Since: ahead, Time: ahead}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := t.TempDir()
			if leaseTimeout = 200 * time.Millisecond; c.beats { // long enough to see the next heartbeat
				leaseTimeout = time.Minute
			}
			put := func() {
				text, err := json.Marshal(c.o)
				if err == nil {
					err = os.WriteFile(filepath.Join(path, ".tmp"), text, 0o644)
				}
				if err == nil {
					err = os.Rename(filepath.Join(path, ".tmp"), filepath.Join(path, lockFile))
				}
				if err != nil {
					t.Error(err)
				}
			}
			put()
			half := temporaryPrefix(filepath.Join(path, lockFile)) + "x" // of an owner that was killed while it wrote
			if err := os.WriteFile(half, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for c.beats {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
						c.o.Heartbeats++
						put()
					}
				}
			}()
			l, err := Take(filepath.Join(path, lockFile), "the run directory")
			close(stop)
			<-done
			if (err == nil) != c.free {
				t.Fatalf("got %v, want it free: %v", err, c.free)
			}
			if err != nil && (c.o.Time == ahead) != strings.Contains(err.Error(), "ahead") {
				t.Errorf("its age is reported as %v", err)
			}
			if _, err := os.Stat(half); errors.Is(err, os.ErrNotExist) != c.free {
				t.Errorf("a half written lease: %v, want it removed: %v", err, c.free)
			}
			if l != nil {
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLost: CheckHeld returns an error after a takeover, and Release does not
// remove the other process's lease.
func TestLost(t *testing.T) {
	oldBeat := heartbeatInterval
	heartbeatInterval = 10 * time.Millisecond
	t.Cleanup(func() { heartbeatInterval = oldBeat })
	path := filepath.Join(t.TempDir(), lockFile)
	l, err := Take(path, "the run directory")
	if err != nil || l.CheckHeld() != nil {
		t.Fatal(err, l.CheckHeld())
	}
	if err := os.WriteFile(path, []byte(`{"host":"other","pid":3,"token":"t"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); l.CheckHeld() == nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := l.CheckHeld(); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "host other") {
		t.Errorf("got %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the new owner's lease was removed")
	}
}

// TestHeld: the error names the owner, when it took the lease, and its command
// without secrets. Leases of one folder are independent.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	old := os.Args
	os.Args = []string{"/usr/bin/ensemble", "predict", "--input", "https://me:pa55w0rd@host/fc"}
	l, err := Take(filepath.Join(dir, ".2026010100.lock"), "the folder of start 2026010100")
	os.Args = old
	if err != nil {
		t.Fatal(err)
	}
	other, err := Take(filepath.Join(dir, ".2026010112.lock"), "another")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(filepath.Join(dir, ".2026010100.lock"), "the folder of start 2026010100")
	if exit.CodeOf(err) != exit.CannotWrite || !errors.Is(err, ErrHeld) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"the folder of start 2026010100 is in use", fmt.Sprintf("pid %d, since 20", os.Getpid()), "s), alive ", "its process is running: ensemble predict --input https://***@host/fc"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if err := errors.Join(l.Release(), other.Release()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// FuzzOwner: for any content of the file, Take succeeds or returns an error with
// the owner.
func FuzzOwner(f *testing.F) {
	whole, err := json.Marshal(thisProcess())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(`{"host":"a","boot":"b","pid":-1,"start":"1","since":"9999-12-31T23:59:59Z","time":"0001-01-01T00:00:00Z","token":"t","heartbeats":18446744073709551615}`))
	f.Add([]byte(`{"pid":1e99}`))
	path := filepath.Join(f.TempDir(), lockFile)
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		o, err := readOwner(thisMachine{}, path)
		if err != nil {
			t.Fatal(err)
		}
		IsAbandoned(path)
		if e := heldError(path, "it", o, "test"); exit.CodeOf(e) != exit.CannotWrite || strings.ContainsFunc(exit.OneLine(e), func(r rune) bool { return r < ' ' }) {
			t.Errorf("%q: %q", text, exit.OneLine(e))
		}
	})
}

// TestEmptied: a lease that a power failure has emptied or filled with zeros is abandoned; one that is being read while it is
// written, or that is none, is not.
func TestEmptied(t *testing.T) {
	for text, want := range map[string]bool{"": true, "\x00\x00\x00": true, `{"host": "`: false, "{}": false} {
		path := filepath.Join(t.TempDir(), "a.lock")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := IsAbandoned(path); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestReleaseWithoutRemoval: a lease that cannot be removed is reported, and does not block the process that held it.
func TestReleaseWithoutRemoval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := Take(path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Remove}, Err: unix.EIO})
	err = l.Release()
	restore()
	if exit.CodeOf(err) != exit.IO || !errors.Is(err, unix.EIO) {
		t.Errorf("got %v, want exit 74", err)
	}
	again, err := Take(path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

// TestReleaseOfRemoved: a lease that was removed already, as by hand, is released without an error.
func TestReleaseOfRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	l, err := Take(path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestEachOperation: whatever operation of Take, CheckHeld and Release fails, either the lease is held and released, or it is an
// error; afterwards the lease can be taken. A write or a sync that fails is never hidden: the lease would be empty for others.
func TestEachOperation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, lockFile)
	for round := range faultfs.Rounds(faultfs.Fault{Err: unix.EIO}, 1) {
		var taking bool // the fault happened to Take
		hit, err := round.Run(t, func() error {
			l, err := Take(path, "the test")
			taking = round.Hit() != nil
			if err != nil {
				return err
			}
			if lost := l.CheckHeld(); lost != nil {
				t.Errorf("operation %d fails, and the lease is reported as lost: %v", round.N, lost)
			}
			return l.Release()
		})
		if hit == nil {
			break
		}
		if k := hit.Kind; err == nil && (k == faultfs.Write || k == faultfs.Sync || k == faultfs.Remove || k == faultfs.Create || taking && k == faultfs.ReadDir) {
			t.Errorf("%s of %s fails, and no error is returned", k, hit.Path)
		}
		again, err := Take(path, "the test")
		if err != nil {
			t.Fatalf("after %s of %s failed: %v", hit.Kind, hit.Path, err)
		}
		if err := again.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// swept is a machine on which, once begun, another process removes temporary files first.
type swept struct {
	thisMachine
	begun *atomic.Bool
}

func (m swept) Remove(path string) error {
	if err := m.thisMachine.Remove(path); err != nil || !m.begun.Load() || filepath.Base(path) == lockFile {
		return err
	}
	return os.ErrNotExist
}

// TestSweptLook: a process that begins removes the links by which others look at the lease. The owner still holds it.
func TestSweptLook(t *testing.T) {
	m := swept{begun: new(atomic.Bool)}
	path := filepath.Join(t.TempDir(), lockFile)
	l, err := TakeOn(m, path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	m.begun.Store(true)
	if err := l.CheckHeld(); err != nil {
		t.Errorf("reported as lost: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the release: %v", err)
	}
}

// TestLockOfFolder: a folder is locked by one at a time, until it is released.
func TestLockOfFolder(t *testing.T) {
	dir := t.TempDir()
	release, guarded, err := thisMachine{}.Lock(dir)
	if err != nil || !guarded {
		t.Fatalf("guarded %v, %v", guarded, err)
	}
	if _, guarded, err := (thisMachine{}).Lock(dir); !errors.Is(err, unix.EWOULDBLOCK) || guarded {
		t.Errorf("a second lock: guarded %v, %v", guarded, err)
	}
	release()
	if release, guarded, err = (thisMachine{}).Lock(dir); err != nil || !guarded {
		t.Fatalf("after the release: guarded %v, %v", guarded, err)
	}
	release()
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Lock}, Err: unix.ENOLCK})
	release, guarded, err = thisMachine{}.Lock(dir)
	restore()
	if err != nil || guarded {
		t.Fatalf("a file system without locks: guarded %v, %v", guarded, err)
	}
	release()
	if _, _, err := (thisMachine{}).Lock(filepath.Join(dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// TestOverwrite: a new text takes the place of the old one, and is synced.
func TestOverwrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	f, err := thisMachine{}.Create(path, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (thisMachine{}).Create(path, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if err := f.Overwrite([]byte("later")); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "later" {
		t.Errorf("%q, %v", text, err)
	}
	if err := f.Overwrite(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	for _, kind := range []faultfs.Kind{faultfs.Write, faultfs.Sync} {
		_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{kind}, Err: unix.ENOSPC})
		_, err := thisMachine{}.Create(path+string(kind), []byte("x"))
		restore()
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s fails: %v", kind, err)
		}
	}
}

// TestExtend: the second file is the lease too: others are refused in the folder that takes the place of the first one, and it is
// released there. What a killed owner left there is replaced. With hard links it is the same file, which gets the heartbeats.
func TestExtend(t *testing.T) {
	for name, m := range map[string]Machine{"hard links": thisMachine{}, "no hard links": bare{other: func() {}, slept: new(time.Duration)}} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir, next := filepath.Join(root, "dir"), filepath.Join(root, "next")
			path, second := filepath.Join(dir, lockFile), filepath.Join(next, lockFile)
			if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(next, 0o755), os.WriteFile(second, []byte("of a killed owner"), 0o644)); err != nil {
				t.Fatal(err)
			}
			l, err := TakeOn(m, path, "the test")
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Extend(next); err != nil {
				t.Fatal(err)
			}
			one, e1 := readOwner(m, path)
			two, e2 := readOwner(m, second)
			if e1 != nil || e2 != nil || two.Token != l.me.Token || one.Token != two.Token {
				t.Errorf("owners %+v and %+v, %v, %v", one, two, e1, e2)
			}
			a, e1 := os.Stat(path)
			b, e2 := os.Stat(second)
			if e1 != nil || e2 != nil || os.SameFile(a, b) != (name == "hard links") {
				t.Errorf("the same file: %v, %v, %v", os.SameFile(a, b), e1, e2)
			}
			if err := errors.Join(os.RemoveAll(dir), os.Rename(next, dir)); err != nil {
				t.Fatal(err)
			}
			if _, err := Take(path, "the test"); !errors.Is(err, ErrHeld) {
				t.Errorf("the lease in the new folder: %v, want ErrHeld", err)
			}
			if err := l.CheckHeld(); err != nil {
				t.Error(err)
			}
			if err := l.Release(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the second file remains after the release: %v", err)
			}
			if err := l.Extend(filepath.Join(root, "none")); exit.CodeOf(err) != exit.CannotWrite {
				t.Errorf("a folder that does not exist: %v, want exit 73", err)
			}
		})
	}
}
