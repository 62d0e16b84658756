package lease

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
)

// foreign is the owner of a lease on another machine.
var foreign = Owner{Host: "elsewhere", Boot: "other", PID: 1, Token: "a", Heartbeats: FirstHeartbeat}

// putOwner writes a lease of an owner, without a moment in which there is none.
func putOwner(t *testing.T, path string, o Owner) {
	t.Helper()
	text, err := json.Marshal(o)
	if err := errors.Join(err, os.WriteFile(path+".new", text, 0o644), os.Rename(path+".new", path)); err != nil {
		t.Error(err)
	}
}

// TestTimes: an owner on another machine that lives is recognised at its next heartbeat, five seconds later at most. A silent one is
// waited for twenty seconds, and not much longer. A lease that is removed meanwhile is free at once.
func TestTimes(t *testing.T) {
	for name, c := range map[string]struct {
		during      func(t *testing.T, path string)
		held        bool
		least, most time.Duration
	}{
		"silent":  {func(*testing.T, string) {}, false, 20 * time.Second, 20*time.Second + heartbeatInterval/10}, // a clock that files do not advance
		"beating": {func(t *testing.T, path string) { o := foreign; o.Heartbeats++; putOwner(t, path, o) }, true, 4900 * time.Millisecond, 7 * time.Second},
		"another": {func(t *testing.T, path string) { o := foreign; o.Token = "b"; putOwner(t, path, o) }, true, 4900 * time.Millisecond, 7 * time.Second},
		"removed": {func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}, false, 4900 * time.Millisecond, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), lockFile)
			putOwner(t, path, foreign)
			synctest.Test(t, func(t *testing.T) {
				go func() {
					time.Sleep(4900 * time.Millisecond)
					c.during(t, path)
				}()
				begin := time.Now()
				l, err := Take(path, "the test")
				took := time.Since(begin)
				if errors.Is(err, ErrHeld) != c.held || err != nil && !c.held || took < c.least || took > c.most {
					t.Errorf("%v after %v, want held: %v after %v to %v", err, took, c.held, c.least, c.most)
				}
				if err == nil {
					if err := l.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestHeartbeats: an owner increments its counter every five seconds, in a file of the same length, until it releases its lease.
func TestHeartbeats(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockFile)
	synctest.Test(t, func(t *testing.T) {
		l, err := Take(path, "the test")
		if err != nil {
			t.Fatal(err)
		}
		length := int64(-1)
		for beats := range uint64(4) {
			time.Sleep(2500 * time.Millisecond)
			o, err := readOwner(thisMachine{}, path)
			if err != nil || o.Heartbeats != FirstHeartbeat+beats || o.Token != l.me.Token {
				t.Errorf("after %d intervals: %+v, %v", beats, o, err)
			}
			st, err := os.Stat(path)
			if err != nil || length >= 0 && st.Size() != length {
				t.Errorf("%d bytes, before %d, %v", st.Size(), length, err)
			}
			length = st.Size()
			time.Sleep(2500 * time.Millisecond)
			synctest.Wait()
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}

// TestUnreadableWhileWatched: a lease that cannot be read while it is watched is not taken.
func TestUnreadableWhileWatched(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockFile)
	putOwner(t, path, foreign)
	synctest.Test(t, func(t *testing.T) {
		_, restore := faultfs.Use(faultfs.Fault{N: 2, Times: 1, Of: []faultfs.Kind{faultfs.Open}, At: func(o faultfs.Operation) bool { return o.Path == path }, Err: unix.EIO})
		_, err := Take(path, "the test")
		restore()
		if exit.CodeOf(err) != exit.IO || !errors.Is(err, unix.EIO) {
			t.Errorf("got %v, want exit 74", err)
		}
	})
	if o, err := readOwner(thisMachine{}, path); err != nil || o != foreign {
		t.Errorf("the lease is that of %+v, %v", o, err)
	}
}

// TestSetAside: only the lease that was read is removed. One that took its place comes back.
func TestSetAside(t *testing.T) {
	beat, other := foreign, foreign
	beat.Heartbeats++
	other.Token = "b"
	for name, c := range map[string]struct {
		is   *Owner
		want error
	}{"the same": {&foreign, nil}, "with a heartbeat": {&beat, os.ErrExist}, "of another": {&other, os.ErrExist}, "none": {nil, os.ErrNotExist}} {
		dir := t.TempDir()
		path := filepath.Join(dir, lockFile)
		if c.is != nil {
			putOwner(t, path, *c.is)
		}
		l := &Lease{path: path, machine: thisMachine{}, me: thisProcess()}
		if err := l.setAside(foreign); !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if c.want != os.ErrExist {
			if len(left) > 0 {
				t.Errorf("%s: left %v", name, left)
			}
			continue
		}
		if o, err := readOwner(thisMachine{}, path); err != nil || o != *c.is || len(left) != 1 {
			t.Errorf("%s: the lease is %+v of %v, %v", name, o, left, err)
		}
		_, restore := faultfs.Use(faultfs.Fault{}) // a system without hard links
		err = l.setAside(foreign)
		restore()
		if !errors.Is(err, os.ErrExist) {
			t.Errorf("%s, without hard links: %v", name, err)
		}
	}
}

// linkless is a machine on which hard links fail with an error.
type linkless struct {
	thisMachine
	err error
}

func (m linkless) Link(from, to string) error { return m.err }

// TestSetAsideFails: a lease that was set aside by mistake, and cannot be put back, is reported by that error.
func TestSetAsideFails(t *testing.T) {
	other := foreign
	other.Token = "b"
	path := filepath.Join(t.TempDir(), lockFile)
	putOwner(t, path, other)
	l := &Lease{path: path, machine: linkless{err: unix.EIO}, me: thisProcess()}
	if err := l.setAside(foreign); !errors.Is(err, unix.EIO) || errors.Is(err, os.ErrExist) {
		t.Errorf("got %v", err)
	}
}

// bare is a machine with neither locks nor hard links, on which other may write while a process waits.
type bare struct {
	thisMachine
	other func()
	slept *time.Duration
}

func (bare) Link(from, to string) error        { return errors.ErrUnsupported }
func (bare) Lock(string) (func(), bool, error) { return func() {}, false, nil }
func (m bare) Sleep(d time.Duration, stop <-chan struct{}) bool {
	if stop != nil { // the heartbeat
		return m.thisMachine.Sleep(d, stop)
	}
	*m.slept += d
	m.other()
	return true
}

// TestLastWriterWins: without locks and hard links, the owner is whose lease is there after a while, long enough for other machines to see it.
func TestLastWriterWins(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockFile)
	for name, c := range map[string]struct {
		other func()
		held  bool
	}{
		"alone": {func() {}, false}, "overwritten": {func() { putOwner(t, path, foreign) }, true},
		"removed": {func() {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
		}, true},
	} {
		var slept time.Duration
		l, err := TakeOn(bare{other: c.other, slept: &slept}, path, "the test")
		if errors.Is(err, ErrHeld) != c.held || err != nil && !c.held {
			t.Errorf("%s: %v, want held: %v", name, err, c.held)
		}
		if slept < 100*time.Millisecond || slept > time.Second {
			t.Errorf("%s: waited %v", name, slept)
		}
		if err == nil {
			if err := l.Release(); err != nil {
				t.Error(err)
			}
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestNoSpaceForName: without hard links, a lease that cannot get its name leaves no file.
func TestNoSpaceForName(t *testing.T) {
	dir := t.TempDir()
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Rename}, Err: unix.ENOSPC}) // a system without hard links
	_, err := Take(filepath.Join(dir, lockFile), "the test")
	restore()
	left, readErr := os.ReadDir(dir)
	if !errors.Is(err, unix.ENOSPC) || len(left) > 0 || readErr != nil {
		t.Errorf("%v, left %v, %v", err, left, readErr)
	}
}

// TestGuard: nothing is published by a process that lost its lease, or cannot lock the folder. The error of a publication is returned.
func TestGuard(t *testing.T) {
	path := filepath.Join(t.TempDir(), lockFile)
	l, err := Take(path, "the test")
	if err != nil {
		t.Fatal(err)
	}
	published := 0
	publish := func() error { published++; return nil }
	if err := l.Guard(publish); err != nil || published != 1 {
		t.Errorf("%v, published %d times", err, published)
	}
	if err := l.Guard(func() error { return unix.ENOSPC }); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a publication that fails: %v", err)
	}
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Open}, Err: unix.EIO})
	err = l.Guard(publish)
	restore()
	if !errors.Is(err, unix.EIO) || published != 1 {
		t.Errorf("a folder that cannot be opened: %v, published %d times", err, published)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := l.Guard(publish); !errors.Is(err, ErrHeld) || published != 1 || !strings.Contains(err.Error(), "host unknown") {
		t.Errorf("without the lease: %v, published %d times", err, published)
	}
	putOwner(t, path, foreign)
	if err := l.Guard(publish); !errors.Is(err, ErrHeld) || published != 1 || !strings.Contains(err.Error(), "host elsewhere") {
		t.Errorf("with the lease of another: %v, published %d times", err, published)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if err := (*Lease)(nil).Guard(publish); err != nil || published != 2 {
		t.Errorf("without a lease to hold: %v, published %d times", err, published)
	}
}
