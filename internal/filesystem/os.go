package filesystem

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OS is the operating system's System.
type OS struct{}

// OpenFile is os.OpenFile.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	return asFile(os.OpenFile(name, flag, perm))
}

// OpenIn is the OpenFile of a root.
func (OS) OpenIn(root *os.Root, name string, flag int, perm fs.FileMode) (File, error) {
	return asFile(root.OpenFile(name, flag, perm))
}

// asFile makes a File of an *os.File, and none of an error.
func asFile(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// osFile is an *os.File whose errors state the offset.
type osFile struct{ *os.File }

// Read is that of *os.File.
func (f osFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	return n, f.here(err)
}

// ReadAt is that of *os.File.
func (f osFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	return n, located(err, at+int64(n))
}

// Write is that of *os.File.
func (f osFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.here(err)
}

// WriteAt is that of *os.File.
func (f osFile) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, located(err, at+int64(n))
}

// ReadFrom is that of *os.File, which copies within the kernel where it can.
func (f osFile) ReadFrom(r io.Reader) (int64, error) {
	n, err := f.File.ReadFrom(r)
	return n, f.here(err)
}

// here adds the position of the file to an error.
func (f osFile) here(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	at, e := f.Seek(0, io.SeekCurrent)
	if e != nil {
		return err
	}
	return located(err, at)
}

// located adds an offset to the error of a system call.
func located(err error, at int64) error {
	var of *fs.PathError
	if err == nil || err == io.EOF || !errors.As(err, &of) {
		return err
	}
	return &fs.PathError{Op: of.Op, Path: of.Path, Err: &OffsetError{Offset: at, Err: of.Err}}
}

// OffsetError is an error of reading or writing at an offset of a file.
type OffsetError struct {
	Offset int64
	Err    error
}

// Error states the cause and the offset.
func (e *OffsetError) Error() string { return fmt.Sprintf("%v at byte %d", e.Err, e.Offset) }

// Unwrap returns the cause.
func (e *OffsetError) Unwrap() error { return e.Err }

// Stat is os.Stat.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Lstat is os.Lstat.
func (OS) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// ReadDir is os.ReadDir.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Mkdir is os.Mkdir.
func (OS) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// RenameAt is renameat(2).
func (OS) RenameAt(from File, oldName string, to File, newName string) error {
	if err := unix.Renameat(int(from.Fd()), oldName, int(to.Fd()), newName); err != nil {
		return &os.LinkError{Op: "rename", Old: filepath.Join(from.Name(), oldName), New: filepath.Join(to.Name(), newName), Err: err}
	}
	return nil
}

// Exchange is renameat2(2) with RENAME_EXCHANGE. Where the system call, the file system or the system lacks it, the error
// is errors.ErrUnsupported.
func (OS) Exchange(a, b string) error {
	err := exchange(a, b)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // EINVAL: the file system does not know the flag
		err = errors.ErrUnsupported
	}
	if err != nil {
		return &os.LinkError{Op: "exchange", Old: a, New: b, Err: err}
	}
	return nil
}

// Link is os.Link. File systems without hard links answer EPERM.
func (OS) Link(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EMLINK) {
		err = &os.LinkError{Op: "link", Old: from, New: to, Err: errors.ErrUnsupported}
	}
	return err
}

// Remove is os.Remove.
func (OS) Remove(name string) error { return os.Remove(name) }

// RemoveAll is os.RemoveAll, which follows no link, also if one is put in place of a folder meanwhile.
func (OS) RemoveAll(name string) error { return os.RemoveAll(name) }

// SyncDir opens the folder and syncs it.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Flock is flock(2).
func (OS) Flock(f File, how int) error {
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}
