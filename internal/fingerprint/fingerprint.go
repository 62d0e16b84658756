// Package fingerprint detects whether a file, or a folder of files, changed since
// an earlier look, without reading all of it.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// File identifies a version of a file. For a folder it has the sum of the sizes and
// the latest times of all files.
type File struct {
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"` // mtime
	Changed  time.Time `json:"changed"`  // ctime: last change of content, name or permissions
	Device   uint64    `json:"device"`
	Inode    uint64    `json:"inode"`
	// SHA-256 of the first and last bytes; for a folder of its file list
	EndsSHA256 string `json:"ends_sha256"`
}

// endSize is the number of bytes at each end that are hashed. Headers of formats
// are at the start, the end markers of the last message or chunk at the end.
const endSize = 4096

// Of returns the File of a file or folder.
//
// Errors: those of opening and reading it.
func Of(path string) (File, error) {
	if st, err := filesystem.Stat(path); err == nil && st.IsDir() {
		return ofFolder(path, st)
	}
	f, err := filesystem.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	return OfFile(f)
}

// OfFile returns the File of an open file.
func OfFile(f filesystem.File) (File, error) {
	s, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	m := ofInfo(s)
	n := min(m.Size, endSize)
	ends := make([]byte, 2*n)
	if n > 0 {
		if _, err := f.ReadAt(ends[:n], 0); err != nil {
			return File{}, err
		}
		if _, err := f.ReadAt(ends[n:], m.Size-n); err != nil {
			return File{}, err
		}
	}
	sum := sha256.Sum256(ends)
	m.EndsSHA256 = hex.EncodeToString(sum[:])
	return m, nil
}

// OfOpen returns the File of an open file whose ends are known from another process. It reads
// no content.
func OfOpen(f filesystem.File, endsSHA256 string) (File, error) {
	s, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	m := ofInfo(s)
	m.EndsSHA256 = endsSHA256
	return m, nil
}

// ofInfo converts the metadata of the file system.
func ofInfo(s fs.FileInfo) File {
	m := File{Size: s.Size(), Modified: s.ModTime().UTC()}
	if st, ok := s.Sys().(*syscall.Stat_t); ok {
		m.Device, m.Inode, m.Changed = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix()).UTC()
	}
	return m
}

// IsStatEqual reports whether the file system's metadata of a file are unchanged.
// It does not read the file. For a folder it returns false, because its files are
// not checked.
func (m File) IsStatEqual(path string) bool {
	s, err := filesystem.Stat(path)
	if err != nil || s.IsDir() {
		return false
	}
	now := ofInfo(s)
	now.EndsSHA256 = m.EndsSHA256
	return m.UnchangedSince(now)
}

// ChangeTime returns the ctime of a file; the zero time for folders, whose files
// have times of their own, and for files without metadata.
func ChangeTime(path string) time.Time {
	s, err := filesystem.Stat(path)
	if err != nil || s.IsDir() {
		return time.Time{}
	}
	return ofInfo(s).Changed
}

// ofFolder returns the File of a folder. It hashes only the list of files, not
// their content.
func ofFolder(path string, s fs.FileInfo) (File, error) {
	parts, err := manifest.ListFiles(path)
	if err != nil {
		return File{}, err
	}
	m := ofInfo(s)
	m.Size, m.Modified, m.Changed = 0, time.Time{}, time.Time{}
	h := sha256.New()
	for _, p := range parts {
		one := ofInfo(p)
		m.Size += one.Size
		if one.Modified.After(m.Modified) {
			m.Modified = one.Modified
		}
		if one.Changed.After(m.Changed) {
			m.Changed = one.Changed
		}
		fmt.Fprintf(h, "%q %d %d\n", p.Path, one.Size, one.Modified.UnixNano())
	}
	m.EndsSHA256 = hex.EncodeToString(h.Sum(nil))
	return m, nil
}

// IsSameContent reports whether both have the same content, as far as size, times
// and hashes show. Permissions and links may differ.
func (m File) IsSameContent(o File) bool {
	return m.Size == o.Size && m.Device == o.Device && m.Inode == o.Inode && m.Modified.Equal(o.Modified) && m.EndsSHA256 == o.EndsSHA256
}

// UnchangedSince is the stricter comparison for looks that are far apart in time.
// It also compares ctime, which shows a change of the content with a restored
// mtime.
func (m File) UnchangedSince(o File) bool { return m.IsSameContent(o) && m.Changed.Equal(o.Changed) }

// changed is the text by which IsChanged recognises the error, also after it was
// sent to another process.
const changed = "an input file changed while it was read"

// Verify compares a file with its earlier state.
//
// Errors: exit 66 if it was replaced, extended, overwritten or removed.
func (m File) Verify(path string) error {
	now, err := Of(path)
	if err == nil && m.IsSameContent(now) {
		return nil
	}
	e := ChangedError(path, err)
	switch {
	case err != nil:
	case m.Inode != now.Inode || m.Device != now.Device:
		e.Why = "it was replaced by another file"
	case m.Size == now.Size && m.Modified.Equal(now.Modified):
		e.Why = "its first or last bytes, or the files in it, have changed"
	default:
		e.Why = fmt.Sprintf("it had %d bytes, modified %s; now it has %d bytes, modified %s", m.Size, m.Modified.Format(time.RFC3339Nano), now.Size, now.Modified.Format(time.RFC3339Nano))
	}
	return e
}

// ChangedError returns the error of a file or folder that changed.
func ChangedError(at string, cause error) *exit.Error {
	e := &exit.Error{Code: exit.NotYet, What: changed, At: at, Fix: "wait until it is complete, then run the same command again", Err: cause}
	if cause != nil {
		e.Why = cause.Error()
	}
	return e
}

// IsChanged reports whether an error is that of Verify or ChangedError.
func IsChanged(err error) bool {
	var e *exit.Error
	return errors.As(err, &e) && e.Code == exit.NotYet && e.What == changed
}
