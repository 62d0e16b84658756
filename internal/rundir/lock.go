package rundir

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
)

const lockFile = "run.lock"

// beat is the time between two heartbeats of a lease. A lease of another machine
// counts as dead when its counter did not move for silence.
var (
	beat    = 5 * time.Second
	silence = 4 * beat
)

// owner is the content of run.lock.
type owner struct {
	Host  string `json:"host"`
	Boot  string `json:"boot"` // changes with every start of the machine, and differs between containers
	PID   int    `json:"pid"`
	Start string `json:"start"` // start of the process in clock ticks since boot: a PID is used again
	Token string `json:"token"`
	Beats uint64 `json:"beats"`
	Time  string `json:"time"` // for people; clocks decide nothing
}

// A lease is a run.lock that this process keeps alive. File locks alone would not
// do: some network file systems have none. They only serialise the taking.
type lease struct {
	path  string
	me    owner
	stop  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
	taken atomic.Bool
}

// acquire takes the lease of a directory.
//
// Errors: 73 if its owner is alive or may be.
func acquire(dir string) (*lease, error) {
	l := &lease{path: filepath.Join(dir, lockFile), me: self(), stop: make(chan struct{})}
	release, guarded, err := guard(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := l.claim(); err != nil {
		return nil, err
	}
	if !guarded { // without file locks the last of two writers wins; let it be seen
		time.Sleep(200 * time.Millisecond)
		if now, err := readOwner(l.path); err != nil || now.Token != l.me.Token {
			return nil, inUse(l.path, now, "it was taken at the same moment")
		}
	} else if err := l.sweep(); err != nil {
		return nil, errors.Join(exit.Create(dir, err), l.release())
	}
	l.done.Go(l.live)
	return l, nil
}

// claim writes the lease if there is none or its owner is dead.
func (l *lease) claim() error {
	old, err := readOwner(l.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return exit.Create(l.path, err)
	default:
		alive, why, err := l.alive(old)
		if err != nil {
			return exit.Create(l.path, err)
		}
		if alive {
			return inUse(l.path, old, why)
		}
	}
	return exit.Create(l.path, l.write())
}

func inUse(path string, o owner, why string) error {
	return &exit.Error{Code: exit.CannotWrite, What: "the run directory is in use",
		At: fmt.Sprintf("%s, host %s, pid %d", path, o.Host, o.PID), Why: why, Fix: "choose another directory, or wait"}
}

// alive says whether the owner of a lease may still write. On this machine the
// process table answers; for another one we watch its heartbeat.
func (l *lease) alive(o owner) (bool, string, error) {
	if o.Host == l.me.Host && o.Boot == l.me.Boot {
		if start, err := processStart(o.PID); err == nil && start == o.Start {
			return true, "its process is running", nil
		}
		return false, "", nil
	}
	now, err := watch(l.path, o)
	return now, "its heartbeat goes on", err
}

// watch says whether a lease changes within the time after which it counts as dead.
func watch(path string, o owner) (bool, error) {
	for deadline := time.Now().Add(silence); time.Now().Before(deadline); time.Sleep(beat / 5) {
		now, err := readOwner(path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if now.Token != o.Token || now.Beats != o.Beats {
			return true, nil
		}
	}
	return false, nil
}

// guard serialises the taking of leases where the file system has locks, and says
// whether it does.
func guard(dir string) (release func(), guarded bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, exit.Create(dir, err)
	}
	for range 600 { // another starter may be watching a heartbeat
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, false, &exit.Error{Code: exit.CannotWrite, What: "the run directory is in use", At: dir,
			Why: "another process is starting in it", Fix: "choose another directory, or wait"}
	}
	return func() { f.Close() }, err == nil, nil // closing unlocks
}

// live moves the heartbeat on until release, and notices a takeover.
func (l *lease) live() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if now, err := readOwner(l.path); err != nil || now.Token != l.me.Token {
			if err == nil || errors.Is(err, os.ErrNotExist) {
				l.taken.Store(true)
				return
			}
			continue // a read that fails once is no takeover
		}
		l.me.Beats++
		if l.write() != nil {
			continue // the next beat tries again; silence is the risk, not a wrong result
		}
	}
}

func (l *lease) lost() error {
	if !l.taken.Load() {
		return nil
	}
	now, err := readOwner(l.path)
	if err != nil {
		now = owner{Host: "unknown"}
	}
	return inUse(l.path, now, "it took the lease while this process did not answer")
}

// release stops the heartbeat and removes the lease if it is still ours.
func (l *lease) release() error {
	var err error
	l.once.Do(func() {
		close(l.stop)
		l.done.Wait()
		if now, e := readOwner(l.path); e == nil && now.Token == l.me.Token {
			err = os.Remove(l.path)
		}
	})
	return err
}

// write replaces the lease file in one step. It is not synced to the disk: after a
// power loss no owner is alive.
func (l *lease) write() error {
	l.me.Time = time.Now().UTC().Format(time.RFC3339)
	text, err := json.Marshal(l.me)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(l.path), unnamed+l.me.Token)
	if err := os.WriteFile(tmp, append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, l.path); err != nil {
		os.Remove(tmp)
		return err
	}
	return nil
}

// unnamed begins the name of the file in which a lease is written before it takes its own.
const unnamed = "." + lockFile + "-"

// sweep removes what owners left that were killed while they wrote their lease. None of
// them may write: this process has the lease, and the lock under which others would take it.
func (l *lease) sweep() error {
	dir := filepath.Dir(l.path)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unnamed) {
			if gone := os.Remove(filepath.Join(dir, e.Name())); !errors.Is(gone, os.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

// readOwner reads a lease; one that cannot be parsed has no owner that is alive.
func readOwner(path string) (owner, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return owner{}, err
	}
	var o owner
	if json.Unmarshal(text, &o) != nil {
		return owner{}, nil
	}
	return o, nil
}

// self describes this process.
func self() owner {
	var o owner
	o.Host, _ = os.Hostname() // "" compares equal with itself, and the boot id decides
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		o.Boot = strings.TrimSpace(string(boot))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil { // containers number their processes apart
		o.Boot += " " + ns
	}
	o.PID = os.Getpid()
	o.Start, _ = processStart(o.PID) // without /proc no process is found alive; the heartbeat still is
	token := make([]byte, 16)
	rand.Read(token) // never fails (crypto/rand)
	o.Token = hex.EncodeToString(token)
	return o
}

// processStart is field 22 of /proc/PID/stat: when the process began.
func processStart(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The command, field 2, may hold blanks and brackets; the last bracket ends it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if s := string(fields[0]); s == "Z" || s == "X" {
		return "", os.ErrProcessDone
	}
	return string(fields[19]), nil
}
