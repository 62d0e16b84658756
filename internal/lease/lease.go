// Package lease gives one process at a time the right to write to a location: a
// folder, or the products of one initialisation. A lease is a small file
//
//	{"host", "boot", "pid", "start", "command", "since", "token", "heartbeats", "time"}
//
// that its owner rewrites every few seconds. A process that finds a lease checks
// whether the owner is alive: by the process table if the owner runs on the same
// machine, else by watching whether the heartbeat counter changes. It takes over
// the lease of a dead owner.
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
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/redact"
)

// Time between two heartbeats of a lease, and time without a heartbeat after which
// the owner on another machine counts as dead.
var (
	heartbeatInterval = 5 * time.Second
	leaseTimeout      = 4 * heartbeatInterval
)

// owner is the content of a lease.
type owner struct {
	Host string `json:"host"`
	// boot id and PID namespace: differs between boots of a machine and between
	// containers
	Boot string `json:"boot"`
	PID  int    `json:"pid"`
	// start of the process in clock ticks since boot, because PIDs are reused
	Start   string `json:"start"`
	Command string `json:"command"`
	// when the lease was taken; informative, as clocks are not compared
	Since      string `json:"since"`
	Token      string `json:"token"`
	Heartbeats uint64 `json:"heartbeats"`
	Time       string `json:"time"` // of the last heartbeat; informative
}

// Lease is a lease that this process holds and renews. File locks alone are not
// sufficient, because some network file systems lack them; they only serialise the
// taking of leases.
type Lease struct {
	path, what string
	me         owner
	stop       chan struct{}
	done       sync.WaitGroup
	once       sync.Once
	taken      atomic.Bool
}

// ErrHeld marks a lease that another process holds.
var ErrHeld = errors.New("another process holds the lease")

// Take takes the lease in the file path, whose folder must exist. what names the
// location in errors, such as "the run directory".
//
// A lease of another machine is watched for leaseTimeout, without the file lock, since
// other processes may take leases in the same folder. It is taken only if it still has
// the token and the heartbeats that were seen then.
//
// Errors: exit 73 wrapping ErrHeld if the owner is alive or may be, with the owner and
// its times; those of creating the file.
// Cost: at once if the owner is known to be dead or alive, else up to leaseTimeout.
func Take(path, what string) (*Lease, error) {
	l := &Lease{path: path, what: what, me: thisProcess(), stop: make(chan struct{})}
	var silent owner // owner on another machine without a heartbeat
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
			return nil, heldError(path, what, *far, "its heartbeat continues")
		}
		silent = *far
	}
}

// claim writes the lease if there is none, if its owner was a process of this machine
// and is dead, or if its owner is silent. Otherwise it returns the owner far, whose
// heartbeat must be watched first. A lease that cannot be parsed has no token and is
// replaced: it was left by a full disk, or by a machine that lost power.
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
	if !guarded { // without file locks the last of two writers wins: wait until it is visible
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

// IsAbandoned reports whether a file is a lease whose owner was a process of this
// machine and has ended. An owner on another machine or in another container cannot be
// judged from here, so its lease is not abandoned.
func IsAbandoned(path string) bool {
	o, err := readOwner(path)
	if me := thisProcess(); err != nil || o.Host != me.Host || o.Boot != me.Boot {
		return false
	}
	start, err := processStart(o.PID)
	return err != nil || start != o.Start
}

// heldError returns the error of a lease that another process holds. The command of the
// owner had its secrets removed before it was written (package redact).
func heldError(path, what string, o owner, why string) error {
	if o.Command != "" {
		why += ": " + o.Command
	}
	return &exit.Error{Code: exit.CannotWrite, What: what + " is in use", At: fmt.Sprintf("%s, host %s, pid %d%s", path, o.Host, o.PID, o.age()), Why: why,
		Fix: "choose another directory, or wait", Err: ErrHeld}
}

// age describes when the lease was taken and when its last heartbeat was, by the
// clocks of the two machines.
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
	if d := time.Since(last).Round(time.Second); d < -heartbeatInterval { // or this machine's clock was set back
		return text + fmt.Sprintf(", its clock is %s ahead", -d)
	} else {
		return text + fmt.Sprintf(", alive %s ago", max(d, 0))
	}
}

// watch reports whether a lease changes within the timeout. Only differences count, not
// times, because the clocks of two machines differ.
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

// lockTaking locks the folder to serialise the taking of leases. guarded is false on
// file systems without locks. It waits for half a minute at most.
//
// Source: flock(2); on NFS Linux implements it by byte-range locks, which a server may
// refuse.
func (l *Lease) lockTaking(dir string) (release func(), guarded bool, err error) {
	f, err := filesystem.Open(dir)
	if err != nil {
		return nil, false, exit.CreateError(dir, err)
	}
	for range 600 { // another process holds the lock only briefly
		err = filesystem.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
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
	return func() { f.Close() }, err == nil, nil // closing the file releases the lock
}

// heartbeat renews the heartbeat until Release, and detects a takeover. Only this
// goroutine changes l.me after claim.
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
			continue // a failed read does not prove a takeover
		}
		l.me.Heartbeats++
		if l.write() != nil {
			continue // the next heartbeat retries; the risk is a takeover, not a wrong result
		}
	}
}

// CheckHeld returns an error if another process took over the lease, which can
// happen if this process was suspended for long. A nil Lease is never lost.
//
// Errors: exit 73 wrapping ErrHeld, with the present owner; nil while this process
// holds the lease.
func (l *Lease) CheckHeld() error {
	if l == nil || !l.taken.Load() {
		return nil
	}
	now, err := readOwner(l.path)
	if err != nil {
		now = owner{Host: "unknown"}
	}
	return heldError(l.path, l.what, now, "it took the lease while this process was suspended")
}

// Release stops the heartbeat and removes the lease if this process still holds it.
// It may be called twice, and on nil.
//
// Errors: exit 73 or 74 if the file cannot be removed. It is then empty, if it can be written, and blocks nobody.
func (l *Lease) Release() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		close(l.stop)
		l.done.Wait()
		if now, e := readOwner(l.path); e == nil && now.Token == l.me.Token {
			err = exit.CreateError(l.path, l.remove())
		}
	})
	return err
}

// remove removes the lease file. If that fails, it empties the file, so that it is the lease of nobody: otherwise this process
// could not take it again while it lives.
func (l *Lease) remove() error {
	err := filesystem.Remove(l.path)
	if err != nil {
		err = errors.Join(err, filesystem.WriteFile(l.path, nil, 0o644))
	}
	return err
}

// write replaces the lease file atomically. It is not synced to the disk, because no
// owner survives a power failure. Readers see the old or the new content, never a part.
func (l *Lease) write() error {
	l.me.Time = time.Now().UTC().Format(time.RFC3339)
	text, err := json.Marshal(l.me)
	if err != nil {
		return err
	}
	tmp := temporaryPrefix(l.path) + l.me.Token
	if err = filesystem.WriteFile(tmp, append(text, '\n'), 0o644); err == nil {
		err = filesystem.Rename(tmp, l.path)
	}
	if err != nil {
		filesystem.Remove(tmp) // on a full disk an empty file may be left
	}
	return err
}

// temporaryPrefix returns the path prefix of temporary files of a lease.
func temporaryPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-")
}

// IsLeaseFile reports whether file is a lease or one of its temporary files.
func IsLeaseFile(file, path string) bool {
	return file == path || strings.HasPrefix(file, temporaryPrefix(path))
}

// removeTemporary removes temporary files of killed owners. No other process writes
// them: this process holds the lease and the lock.
func (l *Lease) removeTemporary() error {
	dir := filepath.Dir(l.path)
	entries, err := filesystem.ReadDir(dir)
	for _, e := range entries {
		if file := filepath.Join(dir, e.Name()); strings.HasPrefix(file, temporaryPrefix(l.path)) {
			if gone := filesystem.Remove(file); !errors.Is(gone, os.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

// readOwner reads a lease. A file that cannot be parsed has the zero owner, which
// is not alive.
//
// Errors: those of reading the file, such as os.ErrNotExist.
func readOwner(path string) (owner, error) {
	text, err := filesystem.ReadFile(path)
	if err != nil {
		return owner{}, err
	}
	var o owner
	if json.Unmarshal(text, &o) != nil {
		return owner{}, nil
	}
	return o, nil
}

// thisProcess describes this process. Where the system lacks /proc, parts are empty, and
// all owners are judged by their heartbeats.
func thisProcess() owner {
	var o owner
	o.Host, _ = os.Hostname() // an empty name is enough: the boot id distinguishes machines
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		o.Boot = strings.TrimSpace(string(boot))
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil { // containers have separate PID namespaces
		o.Boot += " " + ns
	}
	o.PID = os.Getpid()
	o.Start, _ = processStart(o.PID) // without /proc the heartbeat alone shows that a process is alive
	o.Command = redact.Text(strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " "))
	o.Since = time.Now().UTC().Format(time.RFC3339)
	token := make([]byte, 16)
	rand.Read(token) // never fails (crypto/rand)
	o.Token = hex.EncodeToString(token)
	return o
}

// processStart returns the start time of a process, field 22 of /proc/PID/stat
// (proc(5)).
func processStart(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// Field 2, the command, may contain spaces and parentheses; the last
	// parenthesis ends it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if s := string(fields[0]); s == "Z" || s == "X" {
		return "", os.ErrProcessDone
	}
	return string(fields[19]), nil
}
