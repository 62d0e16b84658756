package lease

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// machine is what a lease needs of the machine of its process: processes, a clock, and
// a view of the shared folder. A test replaces it by simulated machines.
//
// Errors: those of files can be examined by errors.Is.
type machine interface {
	owner() owner                                     // this process, as the owner of a new lease
	isRunning(o owner) bool                           // for an owner on this machine
	now() time.Duration                               // of any zero, not set by anybody
	sleep(d time.Duration, stop <-chan struct{}) bool // false if stop was closed
	read(path string) ([]byte, error)
	create(path string, text []byte) (file, error)
	link(from, to string) error // fails if to exists
	rename(from, to string) error
	remove(path string) error
	list(dir string) ([]string, error)
	// lock locks a folder. guarded is false if the file system lacks locks.
	//
	// Errors: unix.EWOULDBLOCK if another process holds the lock.
	lock(dir string) (release func(), guarded bool, err error)
}

// file is an open file that is overwritten in place.
type file interface {
	overwrite(text []byte) error
	close() error
}

// thisMachine is the machine of this process.
type thisMachine struct{}

var started = time.Now()

func (thisMachine) owner() owner       { return thisProcess() }
func (thisMachine) now() time.Duration { return time.Since(started) } // monotonic

// isRunning looks into the process table.
func (thisMachine) isRunning(o owner) bool {
	start, err := processStart(o.PID)
	return err == nil && start == o.Start
}

func (thisMachine) sleep(d time.Duration, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (thisMachine) read(path string) ([]byte, error) { return filesystem.ReadFile(path) }
func (thisMachine) link(from, to string) error       { return filesystem.Link(from, to) }
func (thisMachine) rename(from, to string) error     { return filesystem.Rename(from, to) }
func (thisMachine) remove(path string) error         { return filesystem.Remove(path) }

func (thisMachine) create(path string, text []byte) (file, error) {
	f, err := filesystem.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	o := openFile{f}
	return o, o.overwrite(text)
}

func (thisMachine) list(dir string) (names []string, err error) {
	entries, err := filesystem.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (thisMachine) lock(dir string) (release func(), guarded bool, err error) {
	f, err := filesystem.Open(dir)
	if err != nil {
		return nil, false, err
	}
	err = filesystem.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, false, unix.EWOULDBLOCK
	}
	return func() { f.Close() }, err == nil, nil // closing the file releases the lock
}

// openFile is a file of this machine.
type openFile struct{ filesystem.File }

// overwrite also syncs: otherwise a network file system keeps what was written to an
// open file.
func (f openFile) overwrite(text []byte) error {
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Sync()
}

func (f openFile) close() error { return f.Close() }
