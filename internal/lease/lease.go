// Package lease gives one process at a time the right to write to a location: a
// folder, or the products of one initialisation. A lease is a small file
//
//	{"host", "boot", "pid", "start", "command", "since", "token", "heartbeats", "time"}
//
// whose counter of heartbeats its owner increments every few seconds. A process that
// finds a lease checks whether the owner is alive: by the process table if the owner
// runs on the same machine, else by watching whether the counter changes. It takes
// over the lease of a dead owner.
//
// At most one process writes, also if an owner was suspended, lost its lease and
// continues, if clocks differ, and on shared folders that show old content for a while:
//
//   - A lease appears by a hard link and disappears by a rename, which fail if another
//     process was faster, so no process replaces the lease of another one.
//   - It is read through a new hard link, whose content no client of a network file
//     system has kept.
//   - Heartbeats are written into the file that the owner created, wherever its name
//     is, so a late one does not reach the lease of the next owner.
//   - Owners publish within Guard, under the file lock under which leases are taken.
//     Where a file system lacks locks, the next owner removes what its predecessor has
//     not published, before it writes.
//   - Only differences of time on one machine count, never its date.
package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Time between two heartbeats of a lease, and time without a heartbeat after which
// the owner on another machine counts as dead.
var (
	heartbeatInterval = 5 * time.Second
	leaseTimeout      = 4 * heartbeatInterval
)

// Lease is a lease that this process holds and renews.
type Lease struct {
	path, what string
	machine    Machine
	me         Owner
	file       File // of the lease, whatever its name is by now
	looks      atomic.Uint64
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
func Take(path, what string) (*Lease, error) { return TakeOn(thisMachine{}, path, what) }

// TakeOn is Take on another machine than that of this process.
func TakeOn(m Machine, path, what string) (*Lease, error) {
	l := &Lease{path: path, what: what, machine: m, me: m.Owner(), stop: make(chan struct{})}
	var silent Owner // owner on another machine without a heartbeat
	for {
		far, err := l.claim(silent)
		if err != nil {
			return nil, err
		}
		if far == nil {
			l.done.Go(l.heartbeat)
			return l, nil
		}
		beats, err := l.watch(*far)
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
func (l *Lease) claim(silent Owner) (far *Owner, err error) {
	dir := filepath.Dir(l.path)
	release, guarded, err := l.lockTaking(dir)
	if err != nil {
		return nil, err
	}
	defer release()
	old, err := l.look()
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, exit.CreateError(l.path, err)
	case old.Host == l.me.Host && old.Boot == l.me.Boot:
		if l.machine.IsRunning(old) {
			return nil, heldError(l.path, l.what, old, "its process is running")
		}
		err = l.setAside(old)
	case old.Token != "" && (old.Token != silent.Token || old.Heartbeats != silent.Heartbeats):
		return &old, nil
	default:
		err = l.setAside(old)
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = l.place(guarded)
	}
	if errors.Is(err, os.ErrExist) {
		now, _ := l.look() // gone again: an unknown owner
		return nil, heldError(l.path, l.what, now, "it was taken at the same moment")
	}
	if err != nil {
		return nil, exit.CreateError(l.path, err)
	}
	if guarded {
		if err := l.removeTemporary(); err != nil {
			return nil, errors.Join(exit.CreateError(dir, err), l.end())
		}
	}
	return nil, nil
}

// setAside removes the lease of a dead owner. If another process has replaced it since
// it was read, which only file systems without locks allow, that lease comes back.
//
// Errors: os.ErrExist if the lease is another one; those of the file system.
func (l *Lease) setAside(dead Owner) error {
	aside := temporaryPrefix(l.path) + l.me.Token + "-dead"
	if err := l.machine.Rename(l.path, aside); err != nil {
		return err
	}
	moved, err := readOwner(l.machine, aside)
	if err == nil && (moved.Token != dead.Token || moved.Heartbeats != dead.Heartbeats) {
		if err = l.machine.Link(aside, l.path); err == nil || errors.Is(err, errors.ErrUnsupported) {
			err = os.ErrExist
		}
	}
	return errors.Join(err, l.machine.Remove(aside))
}

// place creates the lease where there is none. Its folder is not synced, because no owner
// survives a power failure.
//
// Errors: os.ErrExist if there is one; those of the file system.
func (l *Lease) place(guarded bool) (err error) {
	tmp := temporaryPrefix(l.path) + l.me.Token
	defer func() {
		if err != nil && l.file != nil {
			_ = l.file.Close() // of no lease
		}
	}()
	if l.file, err = l.machine.Create(tmp, l.me.text()); err == nil {
		err = l.machine.Link(tmp, l.path)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		if err = l.machine.Rename(tmp, l.path); err != nil {
			return errors.Join(err, l.machine.Remove(tmp))
		}
		if guarded {
			return nil
		}
		// Without links and locks the last of two writers wins: wait until it is visible.
		l.machine.Sleep(200*time.Millisecond, nil)
		if now, err := readOwner(l.machine, l.path); err != nil || now.Token != l.me.Token {
			return os.ErrExist
		}
		return nil
	}
	if e := l.machine.Remove(tmp); err == nil { // on a full disk an empty file may be left
		err = e
	}
	return err
}

// look reads the lease through a new hard link, so that the answer comes from the disk,
// not from the cache of a network file system.
func (l *Lease) look() (Owner, error) {
	at := temporaryPrefix(l.path) + l.me.Token + "-" + strconv.FormatUint(l.looks.Add(1), 10)
	for range 3 { // an owner that begins removes such files
		err := l.machine.Link(l.path, at)
		if errors.Is(err, os.ErrNotExist) {
			return Owner{}, err
		}
		if err != nil { // no hard links, or no space for one
			break
		}
		o, err := readOwner(l.machine, at)
		if gone := l.machine.Remove(at); err == nil || !errors.Is(err, os.ErrNotExist) {
			if errors.Is(gone, os.ErrNotExist) {
				gone = nil
			}
			return o, errors.Join(err, gone)
		}
	}
	return readOwner(l.machine, l.path)
}

// watch reports whether a lease changes within the timeout.
func (l *Lease) watch(o Owner) (bool, error) {
	for begin := l.machine.Now(); l.machine.Now()-begin < leaseTimeout; l.machine.Sleep(heartbeatInterval/5, nil) {
		now, err := l.look()
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
	for range 600 { // another process holds the lock only briefly
		release, guarded, err = l.machine.Lock(dir)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return release, guarded, exit.CreateError(dir, err)
		}
		l.machine.Sleep(50*time.Millisecond, nil)
	}
	return nil, false, &exit.Error{Code: exit.CannotWrite, What: l.what + " is in use", At: dir,
		Why: "another process is starting in it", Fix: "choose another directory, or wait", Err: ErrHeld}
}

// heartbeat renews the heartbeat until Release, and detects a takeover. Only this
// goroutine changes l.me after claim.
func (l *Lease) heartbeat() {
	for l.machine.Sleep(heartbeatInterval, l.stop) {
		if l.isLost() {
			return
		}
		l.me.Heartbeats++
		_ = l.file.Overwrite(l.me.text()) // the next heartbeat retries; the risk is a takeover, not a wrong result
	}
}

// isLost reports whether another process has taken the lease. A failed read does not
// prove it.
func (l *Lease) isLost() bool {
	now, err := l.look()
	if err == nil && now.Token != l.me.Token || errors.Is(err, os.ErrNotExist) {
		l.taken.Store(true)
	}
	return l.taken.Load()
}

// CheckHeld returns an error if another process took over the lease, which can
// happen if this process was suspended for long. It reads the lease. A nil Lease is
// never lost.
//
// Errors: exit 73 wrapping ErrHeld, with the present owner; nil while this process
// holds the lease.
func (l *Lease) CheckHeld() error {
	if l == nil || !l.taken.Load() && !l.isLost() {
		return nil
	}
	now, err := l.look()
	if err != nil {
		now = Owner{Host: "unknown"}
	}
	return heldError(l.path, l.what, now, "it took the lease while this process was suspended")
}

// Guard calls f, which publishes, while this process holds the lease and no other
// process can take it. On file systems without locks the lease may be lost while f runs.
//
// Errors: those of CheckHeld and f; exit 73 if other processes hold the file lock.
func (l *Lease) Guard(f func() error) error {
	if l == nil {
		return f()
	}
	release, _, err := l.lockTaking(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	defer release()
	if err := l.CheckHeld(); err != nil {
		return err
	}
	return f()
}

// Extend gives the lease a second file, in a folder that is going to take the place of its own. Where there are hard links
// it is the same file, which gets the heartbeats after that too.
//
// Errors: exit 73 or 74 if it cannot be made.
func (l *Lease) Extend(dir string) error {
	path := filepath.Join(dir, filepath.Base(l.path))
	if err := l.machine.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a killed owner
		return exit.CreateError(path, err)
	}
	err := l.machine.Link(l.path, path)
	if errors.Is(err, errors.ErrUnsupported) {
		var text []byte
		if text, err = l.machine.Read(l.path); err == nil {
			var f File
			if f, err = l.machine.Create(path, text); err == nil {
				err = f.Close()
			}
		}
	}
	return exit.CreateError(path, err)
}

// Release stops the heartbeat and removes the lease if this process still holds it.
// It may be called twice, and on nil.
//
// Errors: exit 73 or 74 if the file cannot be removed. It is then filled with zeros, if it can be written, and blocks nobody.
func (l *Lease) Release() error {
	if l == nil {
		return nil
	}
	var err error
	l.once.Do(func() {
		close(l.stop)
		l.done.Wait()
		if release, _, e := l.lockTaking(filepath.Dir(l.path)); e == nil { // else another process is suspended with the lock
			defer release()
		}
		err = l.end()
	})
	return err
}

// end removes the lease if this process still holds it, and closes its file. A lease that cannot be read or removed is
// overwritten, so that it is the lease of nobody: otherwise this process could not take it again while it lives. Its file is
// never that of another owner.
func (l *Lease) end() error {
	now, err := l.look()
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = nil
	case err == nil && now.Token == l.me.Token:
		err = l.machine.Remove(l.path)
	}
	if err != nil {
		err = errors.Join(err, l.file.Overwrite(make([]byte, len(l.me.text()))))
	}
	return exit.CreateError(l.path, errors.Join(err, l.file.Close()))
}

// temporaryPrefix returns the path prefix of temporary files of a lease.
func temporaryPrefix(path string) string {
	return filepath.Join(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-")
}

// IsLeaseFile reports whether file is a lease or one of its temporary files.
func IsLeaseFile(file, path string) bool {
	return file == path || strings.HasPrefix(file, temporaryPrefix(path))
}

// HasTemporary reports whether temporary files of a lease are in its folder, or files whose names start with one of the
// prefixes. A killed process leaves them, or a power failure that loses the name of the lease but not theirs. A living
// process may have made them too: only who takes the lease may remove them.
//
// Errors: those of reading the folder.
func HasTemporary(path string, prefixes ...string) (bool, error) {
	prefixes = append(prefixes, filepath.Base(temporaryPrefix(path)))
	entries, err := filesystem.ReadDir(filepath.Dir(path))
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Name(), p) })
	}), err
}

// removeTemporary removes temporary files of killed owners. No other process writes
// them: this process holds the lease and the lock.
func (l *Lease) removeTemporary() error {
	dir := filepath.Dir(l.path)
	names, err := l.machine.List(dir)
	for _, name := range names {
		if file := filepath.Join(dir, name); strings.HasPrefix(file, temporaryPrefix(l.path)) {
			if gone := l.machine.Remove(file); !errors.Is(gone, os.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}
