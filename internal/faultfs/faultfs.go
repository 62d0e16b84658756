// Package faultfs makes operations on files fail, for tests: the n-th one, of one kind or of any, returns an error, writes
// only a part, waits, or kills the process. Rounds has n = 1, 2, 3 ... until a test
// has no further operation.
package faultfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Kind is a kind of operation.
type Kind string

// The kinds. Create is an open that may create, empty or change a file, Open any other.
const (
	Open     Kind = "open"
	Create   Kind = "create"
	Read     Kind = "read"
	Write    Kind = "write"
	Sync     Kind = "sync"
	Truncate Kind = "truncate"
	Close    Kind = "close" // of a file that was opened by Create
	Stat     Kind = "stat"
	ReadDir  Kind = "readdir"
	Mkdir    Kind = "mkdir"
	Rename   Kind = "rename"
	Exchange Kind = "exchange"
	Remove   Kind = "remove"
	SyncDir  Kind = "syncdir"
	Lock     Kind = "lock"
)

// Changing lists the kinds that change files or folders, or make a change durable.
var Changing = []Kind{Create, Write, Sync, Truncate, Close, Mkdir, Rename, Exchange, Remove, SyncDir}

// Operation is one call. Offset and Bytes are those of reading and writing; Offset is -1 at the position of the file.
type Operation struct {
	Kind   Kind
	Path   string
	To     string // the new name of Rename, the other one of Exchange
	Offset int64
	Bytes  int
}

// Fault is what happens, and to which operations.
type Fault struct {
	N     int                  // the first operation, from 1; 0: none, which only counts
	Times int                  // number of operations; 0: one; negative: all from the N-th on
	Of    []Kind               // kinds that count; nil: all
	At    func(Operation) bool // operations that count; nil: all

	Err   error         // returned instead of a result; nil: the operation is executed
	Part  bool          // half of the bytes of a write are written first
	Delay time.Duration // before the operation
	Kill  bool          // SIGKILL of the process, after Part
}

// System injects a fault into the operations of another System.
type System struct {
	base  filesystem.System
	fault Fault

	mu       sync.Mutex
	count    int
	injected []Operation
}

// New returns a System that passes operations on to base.
func New(base filesystem.System, f Fault) *System { return &System{base: base, fault: f} }

// Use makes a System with a fault over the present one the System in use, until restore is called.
func Use(f Fault) (s *System, restore func()) {
	s = New(filesystem.Current(), f)
	return s, filesystem.Replace(s)
}

// Count returns the number of operations that counted.
func (s *System) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Injected returns the operations to which the fault happened.
func (s *System) Injected() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.injected)
}

// hit counts an operation and reports whether the fault happens to it.
func (s *System) hit(op Operation) bool {
	if s.fault.Of != nil && !slices.Contains(s.fault.Of, op.Kind) || s.fault.At != nil && !s.fault.At(op) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	after := s.count - s.fault.N
	if s.fault.N == 0 || after < 0 || s.fault.Times >= 0 && after >= max(s.fault.Times, 1) {
		return false
	}
	s.injected = append(s.injected, op)
	return true
}

// before counts an operation, and lets the fault happen. part, if not nil, executes the first half of a write.
func (s *System) before(op Operation, part func()) error {
	if !s.hit(op) {
		return nil
	}
	time.Sleep(s.fault.Delay)
	if s.fault.Part && part != nil {
		part()
	}
	if s.fault.Kill {
		unix.Kill(os.Getpid(), unix.SIGKILL)
		select {} // until the signal arrives
	}
	if s.fault.Err == nil {
		return nil
	}
	return &fs.PathError{Op: string(op.Kind), Path: op.Path, Err: s.fault.Err}
}

// OpenFile opens a file whose operations count too.
func (s *System) OpenFile(name string, flag int, perm fs.FileMode) (filesystem.File, error) {
	return s.open(name, flag, func() (filesystem.File, error) { return s.base.OpenFile(name, flag, perm) })
}

// OpenIn is OpenFile below a root.
func (s *System) OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (filesystem.File, error) {
	return s.open(name, flag, func() (filesystem.File, error) { return s.base.OpenIn(root, name, flag, perm) })
}

// open opens a file.
func (s *System) open(name string, flag int, do func() (filesystem.File, error)) (filesystem.File, error) {
	kind := Open
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE|os.O_TRUNC) != 0 {
		kind = Create
	}
	if err := s.before(Operation{Kind: kind, Path: name}, nil); err != nil {
		return nil, err
	}
	f, err := do()
	if err != nil {
		return nil, err
	}
	return &file{f, s, kind == Create}, nil
}

// Stat counts as Stat.
func (s *System) Stat(name string) (fs.FileInfo, error) {
	if err := s.before(Operation{Kind: Stat, Path: name}, nil); err != nil {
		return nil, err
	}
	return s.base.Stat(name)
}

// Lstat counts as Stat.
func (s *System) Lstat(name string) (fs.FileInfo, error) {
	if err := s.before(Operation{Kind: Stat, Path: name}, nil); err != nil {
		return nil, err
	}
	return s.base.Lstat(name)
}

// ReadDir counts as ReadDir.
func (s *System) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := s.before(Operation{Kind: ReadDir, Path: name}, nil); err != nil {
		return nil, err
	}
	return s.base.ReadDir(name)
}

// Mkdir counts as Mkdir.
func (s *System) Mkdir(name string, perm fs.FileMode) error {
	if err := s.before(Operation{Kind: Mkdir, Path: name}, nil); err != nil {
		return err
	}
	return s.base.Mkdir(name, perm)
}

// Rename counts as Rename, with the old name.
func (s *System) Rename(from, to string) error {
	if err := s.before(Operation{Kind: Rename, Path: from, To: to}, nil); err != nil {
		return err
	}
	return s.base.Rename(from, to)
}

// RenameAt counts as Rename, with the old name.
func (s *System) RenameAt(from filesystem.File, oldName string, to filesystem.File, newName string) error {
	if err := s.before(Operation{Kind: Rename, Path: filepath.Join(from.Name(), oldName), To: filepath.Join(to.Name(), newName)}, nil); err != nil {
		return err
	}
	return s.base.RenameAt(from, oldName, to, newName)
}

// Exchange counts as Exchange, with the first name.
func (s *System) Exchange(a, b string) error {
	if err := s.before(Operation{Kind: Exchange, Path: a, To: b}, nil); err != nil {
		return err
	}
	return s.base.Exchange(a, b)
}

// Remove counts as Remove.
func (s *System) Remove(name string) error {
	if err := s.before(Operation{Kind: Remove, Path: name}, nil); err != nil {
		return err
	}
	return s.base.Remove(name)
}

// RemoveAll is one Remove for each file and folder.
func (s *System) RemoveAll(name string) error { return filesystem.RemoveEach(s, name) }

// SyncDir counts as SyncDir.
func (s *System) SyncDir(name string) error {
	if err := s.before(Operation{Kind: SyncDir, Path: name}, nil); err != nil {
		return err
	}
	return s.base.SyncDir(name)
}

// Flock counts as Lock.
func (s *System) Flock(f filesystem.File, how int) error {
	if err := s.before(Operation{Kind: Lock, Path: f.Name()}, nil); err != nil {
		return err
	}
	if ours, is := f.(*file); is {
		f = ours.File
	}
	return s.base.Flock(f, how)
}

// file is an open file of a System.
type file struct {
	filesystem.File
	s       *System
	written bool // may have been written
}

func (f *file) Read(p []byte) (int, error) {
	if err := f.s.before(Operation{Kind: Read, Path: f.Name(), Offset: -1, Bytes: len(p)}, nil); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *file) ReadAt(p []byte, at int64) (int, error) {
	if err := f.s.before(Operation{Kind: Read, Path: f.Name(), Offset: at, Bytes: len(p)}, nil); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f *file) Write(p []byte) (n int, err error) {
	if err := f.s.before(Operation{Kind: Write, Path: f.Name(), Offset: -1, Bytes: len(p)}, func() { n, _ = f.File.Write(p[:len(p)/2]) }); err != nil {
		return n, err
	}
	return f.File.Write(p)
}

func (f *file) WriteAt(p []byte, at int64) (n int, err error) {
	if err := f.s.before(Operation{Kind: Write, Path: f.Name(), Offset: at, Bytes: len(p)}, func() { n, _ = f.File.WriteAt(p[:len(p)/2], at) }); err != nil {
		return n, err
	}
	return f.File.WriteAt(p, at)
}

func (f *file) Sync() error {
	if err := f.s.before(Operation{Kind: Sync, Path: f.Name()}, nil); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *file) Truncate(size int64) error {
	if err := f.s.before(Operation{Kind: Truncate, Path: f.Name(), Offset: size}, nil); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Close closes the file in any case, as close(2) does.
func (f *file) Close() error {
	if f.written {
		if err := f.s.before(Operation{Kind: Close, Path: f.Name()}, nil); err != nil {
			f.File.Close()
			return err
		}
	}
	return f.File.Close()
}
