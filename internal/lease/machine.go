package lease

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Machine is what a lease needs of the machine of its process: processes, a clock, and
// a view of the shared folder. Tests replace it by simulated machines
// (package leasetest).
//
// Errors: those of files can be examined by errors.Is.
type Machine interface {
	Owner() Owner                                     // this process, as the owner of a new lease
	IsRunning(o Owner) bool                           // for an owner on this machine
	Now() time.Duration                               // of any zero, not set by anybody
	Sleep(d time.Duration, stop <-chan struct{}) bool // false if stop was closed
	Read(path string) ([]byte, error)
	Create(path string, text []byte) (File, error)
	Link(from, to string) error // fails if to exists
	Rename(from, to string) error
	Remove(path string) error
	List(dir string) ([]string, error)
	// Lock locks a folder. guarded is false if the file system lacks locks.
	//
	// Errors: unix.EWOULDBLOCK if another process holds the lock.
	Lock(dir string) (release func(), guarded bool, err error)
}

// File is an open file that is overwritten in place.
type File interface {
	Overwrite(text []byte) error
	Close() error
}

// thisMachine is the machine of this process.
type thisMachine struct{}

var started = time.Now()

func (thisMachine) Owner() Owner       { return thisProcess() }
func (thisMachine) Now() time.Duration { return time.Since(started) } // monotonic

// IsRunning looks into the process table.
func (thisMachine) IsRunning(o Owner) bool {
	start, err := processStart(o.PID)
	return err == nil && start == o.Start
}

func (thisMachine) Sleep(d time.Duration, stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (thisMachine) Read(path string) ([]byte, error) { return filesystem.ReadFile(path) }
func (thisMachine) Link(from, to string) error       { return filesystem.Link(from, to) }
func (thisMachine) Rename(from, to string) error     { return filesystem.Rename(from, to) }
func (thisMachine) Remove(path string) error         { return filesystem.Remove(path) }

func (thisMachine) Create(path string, text []byte) (File, error) {
	f, err := filesystem.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	o := openFile{f}
	return o, o.Overwrite(text)
}

func (thisMachine) List(dir string) (names []string, err error) {
	entries, err := filesystem.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (thisMachine) Lock(dir string) (release func(), guarded bool, err error) {
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

// Overwrite also syncs: otherwise a network file system keeps what was written to an
// open file.
func (f openFile) Overwrite(text []byte) error {
	if _, err := f.WriteAt(text, 0); err != nil {
		return err
	}
	return f.Sync()
}
