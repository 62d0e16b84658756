// Package fingerprint tells whether a file, or a folder of files, is still the one that was
// looked at, without reading all of it.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// File is what a file is known by. That of a folder has the sum of the sizes and the last
// of the times of all files in it.
type File struct {
	Size       int64     `json:"size"`
	Modified   time.Time `json:"modified"` // last change of the content
	Changed    time.Time `json:"changed"`  // last change of content, name or permissions
	Device     uint64    `json:"device"`
	Inode      uint64    `json:"inode"`
	EndsSHA256 string    `json:"ends_sha256"` // SHA-256 of the first and the last bytes; of a folder that of its list
}

// endSize is how many bytes of each end are hashed: headers of formats lie in the first,
// the end marks of the last message or chunk in the last.
const endSize = 4096

// Of looks at a file or folder by its name.
//
// Errors: those of opening and reading it.
func Of(path string) (File, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return ofFolder(path, st)
	}
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	return OfFile(f)
}

// OfFile looks at an open file.
func OfFile(f *os.File) (File, error) {
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

// ofInfo is what the file system says of a file.
func ofInfo(s fs.FileInfo) File {
	m := File{Size: s.Size(), Modified: s.ModTime().UTC()}
	if st, ok := s.Sys().(*syscall.Stat_t); ok {
		m.Device, m.Inode, m.Changed = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix()).UTC()
	}
	return m
}

// IsStatEqual says whether the file system says the same of a file as in its mark, without a look into it. A
// folder is none of whose files is looked at, so it never does.
func (m File) IsStatEqual(path string) bool {
	s, err := os.Stat(path)
	if err != nil || s.IsDir() {
		return false
	}
	now := ofInfo(s)
	now.EndsSHA256 = m.EndsSHA256
	return m.UnchangedSince(now)
}

// ChangeTime is when content, name or permissions of a file changed last, the zero time for folders, where
// files have times of their own, and for what cannot be asked.
func ChangeTime(path string) time.Time {
	s, err := os.Stat(path)
	if err != nil || s.IsDir() {
		return time.Time{}
	}
	return ofInfo(s).Changed
}

// ofFolder looks at all files in a folder; only their list is hashed.
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

// IsSameContent says whether two marks are of one file with one content, as far as they tell: its
// permissions and links may have changed.
func (m File) IsSameContent(o File) bool {
	return m.Size == o.Size && m.Device == o.Device && m.Inode == o.Inode && m.Modified.Equal(o.Modified) && m.EndsSHA256 == o.EndsSHA256
}

// UnchangedSince is Same for marks that lie far apart in time: nothing of the file has changed,
// not even what a change of the content with its old time would leave behind.
func (m File) UnchangedSince(o File) bool { return m.IsSameContent(o) && m.Changed.Equal(o.Changed) }

// changed is the text of the error by which IsChanged knows it, also after it was sent to
// another process.
const changed = "an input file changed while it was read"

// Verify compares a file with what it was.
//
// Errors: exit 66 if it was replaced, grew or was written to, or is gone.
func (m File) Verify(path string) error {
	now, err := Of(path)
	if err == nil && m.IsSameContent(now) {
		return nil
	}
	e := ChangedError(path, err)
	switch {
	case err != nil:
	case m.Inode != now.Inode || m.Device != now.Device:
		e.Why = "another file has its name now"
	case m.Size == now.Size && m.Modified.Equal(now.Modified):
		e.Why = "its first or last bytes, or the files in it, are others now"
	default:
		e.Why = fmt.Sprintf("it had %d bytes, last written at %s, and has %d of %s", m.Size, m.Modified.Format(time.RFC3339Nano), now.Size, now.Modified.Format(time.RFC3339Nano))
	}
	return e
}

// ChangedError is the error of a file or folder that is no longer what it was.
func ChangedError(at string, cause error) *exit.Error {
	e := &exit.Error{Code: exit.NotYet, What: changed, At: at, Fix: "wait until it is complete, then run the same command again", Err: cause}
	if cause != nil {
		e.Why = cause.Error()
	}
	return e
}

// IsChanged tells whether an error is that of Verify, or Changed.
func IsChanged(err error) bool {
	var e *exit.Error
	return errors.As(err, &e) && e.Code == exit.NotYet && e.What == changed
}
