package filesystem

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Reserve reserves room for the first bytes of a file, where its file system can.
//
// Errors: those of a full disk or quota.
func Reserve(f File, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// DropCache asks the system to forget what it holds of a file in memory, which must be on the disk already.
func DropCache(f File) { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) } // it is only advice

// IsInMemory reports whether the files of a folder take memory, not room on a disk.
func IsInMemory(folder string) bool {
	var s unix.Statfs_t
	return unix.Statfs(folder, &s) == nil && (s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC)
}
