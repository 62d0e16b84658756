// Package lease gives one process at a time the right to write to a place: a folder, or
// the products of one start. It is kept as a small file,
//
//	{"host", "boot", "pid", "start", "command", "since", "token", "beats", "time"}
//
// that its owner replaces every few seconds. Whoever finds it looks whether the owner is
// alive: by the process table on the owner's machine, else by watching whether the
// counter moves. The lease of a dead owner is taken over.
package lease

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
	"github.com/ensemble-weather/ensemble/internal/redact"
)

// beat is the time between two heartbeats of a lease. A lease of another machine
// counts as dead when its counter did not move for silence.
var (
	heartbeatInterval = 5 * time.Second
	leaseTimeout      = 4 * heartbeatInterval
)

// owner is the content of a lease.
type owner struct {
	Host       string `json:"host"`
	Boot       string `json:"boot"` // changes with every start of the machine, and differs between containers
	PID        int    `json:"pid"`
	Start      string `json:"start"` // start of the process in clock ticks since boot: a PID is used again
	Command    string `json:"command"`
	Since      string `json:"since"` // when the lease was taken; like time for people: clocks decide nothing
	Token      string `json:"token"`
	Heartbeats uint64 `json:"heartbeats"`
	Time       string `json:"time"` // of the last heartbeat
}

// A Lease is a file that this process keeps alive. File locks alone would not
// do: some network file systems have none. They only serialise the taking.
type Lease struct {
	path, what string
	me         owner
	stop       chan struct{}
	done       sync.WaitGroup
	once       sync.Once
	taken      atomic.Bool
}

// ErrHeld is wrapped by the errors of leases that another process has.
var ErrHeld = errors.New("another process holds the lease")

// Take takes the lease that is kept in a file, whose folder must be there. what is held is
// named in errors: "the run directory".
//
// Errors: 73, wrapping ErrHeld, if its owner is alive or may be, with who that is and since
// when; those of exit.CreateError.
func Take(path, what string) (*Lease, error) {
	l := &Lease{path: path, what: what, me: thisProcess(), stop: make(chan struct{})}
	var silent owner // of another machine, that was watched in vain
	for {
		far, err := l.claim(silent)
		if err != nil {
			return nil, err
		}
		if far == nil {
			l.done.Go(l.heartbeat)
			return l, nil
		}
		beats, err := watch(path, *far)
		if err != nil {
			return nil, exit.CreateError(path, err)
		}
		if beats {
			return nil, heldError(path, what, *far, "its heartbeat goes on")
		}
		silent = *far
	}
}

// claim writes the lease if there is none, its owner is dead on this machine, or it is the
// one that was silent. It gives the owner that is to be watched first.
func (l *Lease) claim(silent owner) (far *owner, err error) {
	dir := filepath.Dir(l.path)
	release, guarded, err := l.lockTaking(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	old, err := readOwner(l.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, exit.CreateError(l.path, err)
	case old.Host == l.me.Host && old.Boot == l.me.Boot:
		if start, err := processStart(old.PID); err == nil && start == old.Start {
			return nil, heldError(l.path, l.what, old, "its process is running")
		}
	case old.Token != "" && (old.Token != silent.Token || old.Heartbeats != silent.Heartbeats):
		return &old, nil
	}
	if err := exit.CreateError(l.path, l.write()); err != nil {
		return nil, err
	}
	if !guarded { // without file locks the last of two writers wins; let it be seen
		time.Sleep(200 * time.Millisecond)
		if now, err := readOwner(l.path); err != nil || now.Token != l.me.Token {
			return nil, heldError(l.path, l.what, now, "it was taken at the same moment")
		}
		return nil, nil
	}
	if err := l.removeTemporary(); err != nil {
		return nil, errors.Join(exit.CreateError(dir, err), l.Release())
	}
	return nil, nil
}

// IsAbandoned tells whether a file is a lease whose owner was a process of this machine that is
// gone.
func IsAbandoned(path string) bool {
	o, err := readOwner(path)
	if me := thisProcess(); err != nil || o.Host != me.Host || o.Boot != me.Boot {
		return false
	}
	start, err := processStart(o.PID)
	return err != nil || start != o.Start
}

func heldError(path, what string, o owner, why string) error {
	if o.Command != "" {
		why += ": " + o.Command
	}
	return &exit.Error{Code: exit.CannotWrite, What: what + " is in use", At: fmt.Sprintf("%s, host %s, pid %d%s", path, o.Host, o.PID, o.age()), Why: why,
		Fix: "choose another directory, or wait", Err: ErrHeld}
}

// age says since when an owner has its lease, and when it last moved, by the clocks of the
// two machines.
func (o owner) age() string {
	since, err := time.Parse(time.RFC3339, o.Since)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf(", since %s", o.Since)
	if d := time.Since(since).Round(time.Second); d >= 0 {
		text += fmt.Sprintf(" (%s)", d)
	}
	last, err := time.Parse(time.RFC3339, o.Time)
	if err != nil {
		return text
	}
	if d := time.Since(last).Round(time.Second); d < -heartbeatInterval { // or this one's was put back
		return text + fmt.Sprintf(", its clock is %s ahead", -d)
	} else {
		return text + fmt.Sprintf(", alive %s ago", max(d, 0))
	}
}

// watch says whether a lease changes within the time after which it counts as dead.
func watch(path string, o owner) (bool, error) {
	for deadline := time.Now().Add(leaseTimeout); time.Now().Before(deadline); time.Sleep(heartbeatInterval / 5) {
		now, err := readOwner(path)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if now.Token != o.Token || now.Heartbeats != o.Heartbeats {
			return true, nil
		}
	}
	return false, nil
}

// lockTaking serialises the taking of leases where the file system has locks, and says
// whether it does.
func (l *Lease) lockTaking(dir string) (release func(), guarded bool, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, false, exit.CreateError(dir, err)
	}
	for range 600 { // others look and write, and without locks wait for a moment
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, false, &exit.Error{Code: exit.CannotWrite, What: l.what + " is in use", At: dir,
			Why: "another process is starting in it", Fix: "choose another directory, or wait", Err: ErrHeld}
	}
	return func() { f.Close() }, err == nil, nil // closing unlocks
}

// heartbeat moves the heartbeat on until release, and notices a takeover.
func (l *Lease) heartbeat() {
	tick := time.NewTicker(heartbeatInterval)
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
		l.me.Heartbeats++
		if l.write() != nil {
			continue // the next beat tries again; silence is the risk, not a wrong result
		}
	}
}

// CheckHeld says whether another process took the lease over, as one may if this one was
// stopped for long. A nil Lease is never lost.
//
// Errors: exit 73 and ErrHeld, with who has it now; nil while it is ours.
func (l *Lease) CheckHeld() error {
	if l == nil || !l.taken.Load() {
		return nil
	}
	now, err := readOwner(l.path)
	if err != nil {
		now = owner{Host: "unknown"}
	}
	return heldError(l.path, l.what, now, "it took the lease while this process did not answer")
}

// Release stops the heartbeat and removes the lease if it is still ours. It may be called
// twice, and for nil.
func (l *Lease) Release() error {
	if l == nil {
		return nil
	}
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
func (l *Lease) write() error {
	l.me.Time = time.Now().UTC().Format(time.RFC3339)
	text, err := json.Marshal(l.me)
	if err != nil {
		return err
	}
	tmp := temporaryPrefix(l.path) + l.me.Token
	if err = os.WriteFile(tmp, append(text, '\n'), 0o644); err == nil {
		err = os.Rename(tmp, l.path)
	}
	if err != nil {
		os.Remove(tmp) // on a full disk it is there, and empty
	}
	return err
}

// temporaryPrefix begins the path of the file in which a lease is written before it takes its own.
func temporaryPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-")
}

// IsLeaseFile tells whether a file, by its path, belongs to the lease that is kept in another.
func IsLeaseFile(file, path string) bool {
	return file == path || strings.HasPrefix(file, temporaryPrefix(path))
}

// removeTemporary removes what owners left that were killed while they wrote their lease. None of
// them may write: this process has the lease, and the lock under which others would take it.
func (l *Lease) removeTemporary() error {
	dir := filepath.Dir(l.path)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if file := filepath.Join(dir, e.Name()); strings.HasPrefix(file, temporaryPrefix(l.path)) {
			if gone := os.Remove(file); !errors.Is(gone, os.ErrNotExist) {
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

// thisProcess describes this process.
func thisProcess() owner {
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
	o.Command = redact.Text(strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "))
	o.Since = time.Now().UTC().Format(time.RFC3339)
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
