package filesystem

import (
	"errors"
	"io/fs"
	"os"

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

// asFile keeps a nil *os.File from becoming a File that is not nil.
func asFile(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

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
