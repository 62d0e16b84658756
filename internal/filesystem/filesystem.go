// Package filesystem is the one layer through which the program creates, reads, writes, renames and removes its files.
// Its functions have the names and the meaning of those of package os, and call the current System: the operating
// system's, unless a test has replaced it by one that fails, records or delays (internal/faultfs, internal/powerfail).
//
// What C libraries and child processes do with files does not pass through it.
package filesystem

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// File is an open file. *os.File is one.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Seeker
	io.Closer
	// Sync flushes the content to the disk, so that it survives a power failure. The name needs the SyncDir of its folder.
	Sync() error
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	// Name returns the path with which the file was opened.
	Name() string
	// Fd returns the descriptor, for calls that the layer does not have, such as mmap.
	Fd() uintptr
}

// System has the operations on files and folders. All other functions of this package consist of them. Its methods may be
// called concurrently.
//
// Errors: as the functions of package os of the same name, which can be examined by errors.Is.
type System interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// OpenIn opens a file below a root, without following links out of it.
	OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	// ReadDir returns the entries of a folder, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Mkdir(name string, perm fs.FileMode) error
	Rename(from, to string) error
	// RenameAt renames an entry of one open folder to an entry of another, wherever the names of the folders lead by now.
	RenameAt(from File, oldName string, to File, newName string) error
	// Exchange swaps two existing files or folders in one step: each name has always one of the two. Systems and file
	// systems that cannot return an error that is errors.ErrUnsupported, with both unchanged.
	Exchange(a, b string) error
	Remove(name string) error
	// RemoveAll removes a file or a folder with its content. A name that does not exist is no error. A System that
	// watches single operations implements it by RemoveEach.
	RemoveAll(name string) error
	// SyncDir flushes the entries of a folder to the disk: files created, renamed and removed in it.
	SyncDir(name string) error
	// Flock places or removes an advisory lock (flock(2)) on an open file or folder.
	Flock(f File, how int) error
}

// current is the System in use.
var current atomic.Pointer[System]

func init() { Replace(OS{}) }

// Current returns the System in use.
func Current() System { return *current.Load() }

// Replace makes s the System in use until restore is called. Only tests call it. Files that are open stay with the System
// that opened them.
func Replace(s System) (restore func()) {
	before := current.Swap(&s)
	return func() { current.Store(before) }
}

// The operations of the System in use.

// OpenFile is os.OpenFile.
func OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return Current().OpenFile(name, flag, perm)
}

// Open opens a file or folder for reading. A handle that becomes stale is replaced while it is read, as by Stat, Lstat, ReadDir
// and ReadFile.
func Open(name string) (File, error) {
	r, err := openReading(name)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Create creates a file for reading and writing, or empties the one that exists.
func Create(name string) (File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenIn opens a file below a root; see System.
func OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (File, error) {
	return Current().OpenIn(root, name, flag, perm)
}

// Stat is os.Stat.
func Stat(name string) (st fs.FileInfo, err error) {
	err = retryStale(func() (err error) { st, err = Current().Stat(name); return err })
	return st, err
}

// Lstat is os.Lstat.
func Lstat(name string) (st fs.FileInfo, err error) {
	err = retryStale(func() (err error) { st, err = Current().Lstat(name); return err })
	return st, err
}

// ReadDir is os.ReadDir.
func ReadDir(name string) (all []fs.DirEntry, err error) {
	err = retryStale(func() (err error) { all, err = Current().ReadDir(name); return err })
	return all, err
}

// Mkdir is os.Mkdir.
func Mkdir(name string, perm fs.FileMode) error { return Current().Mkdir(name, perm) }

// Rename is os.Rename.
func Rename(from, to string) error { return Current().Rename(from, to) }

// OpenFolder opens a folder for RenameAt. A symbolic link in its place is not followed.
//
// Errors: as OpenFile; for a link or a file one that is unix.ENOTDIR or unix.ELOOP.
func OpenFolder(name string) (File, error) {
	return OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// RenameAt renames an entry of an open folder; see System.
func RenameAt(from File, oldName string, to File, newName string) error {
	return Current().RenameAt(from, oldName, to, newName)
}

// Exchange swaps two existing names in one step; see System.
func Exchange(a, b string) error { return Current().Exchange(a, b) }

// linker is a System that has hard links.
type linker interface {
	Link(from, to string) error
}

// Link gives a file a second name. It fails if that exists.
//
// Errors: as os.Link; errors.ErrUnsupported if the System in use or the file system has no hard links.
func Link(from, to string) error {
	if s, ok := Current().(linker); ok {
		return s.Link(from, to)
	}
	return &os.LinkError{Op: "link", Old: from, New: to, Err: errors.ErrUnsupported}
}

// Remove is os.Remove.
func Remove(name string) error { return Current().Remove(name) }

// RemoveAll is os.RemoveAll.
func RemoveAll(name string) error { return Current().RemoveAll(name) }

// SyncDir flushes the entries of a folder to the disk; see System.
func SyncDir(name string) error { return Current().SyncDir(name) }

// Flock places or removes an advisory lock; see System.
func Flock(f File, how int) error { return Current().Flock(f, how) }
