// Package filemark tells whether a file, or a folder of files, is still the one that was
// looked at, without reading all of it.
package filemark

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

// Mark is what a file is known by. That of a folder has the sum of the sizes and the last
// of the times of all files in it.
type Mark struct {
	Size    int64     `json:"size"`
	Written time.Time `json:"written"` // last change of the content
	Touched time.Time `json:"touched"` // last change of content, name or permissions
	Device  uint64    `json:"device"`
	Inode   uint64    `json:"inode"`
	Ends    string    `json:"ends"` // SHA-256 of the first and the last bytes; of a folder that of its list
}

// endSize is how many bytes of each end are hashed: headers of formats lie in the first,
// the end marks of the last message or chunk in the last.
const endSize = 4096

// Of looks at a file or folder by its name.
//
// Errors: those of opening and reading it.
func Of(path string) (Mark, error) {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return ofFolder(path, st)
	}
	f, err := os.Open(path)
	if err != nil {
		return Mark{}, err
	}
	defer f.Close()
	return OfFile(f)
}

// OfFile looks at an open file.
func OfFile(f *os.File) (Mark, error) {
	s, err := f.Stat()
	if err != nil {
		return Mark{}, err
	}
	m := ofInfo(s)
	n := min(m.Size, endSize)
	ends := make([]byte, 2*n)
	if n > 0 {
		if _, err := f.ReadAt(ends[:n], 0); err != nil {
			return Mark{}, err
		}
		if _, err := f.ReadAt(ends[n:], m.Size-n); err != nil {
			return Mark{}, err
		}
	}
	sum := sha256.Sum256(ends)
	m.Ends = hex.EncodeToString(sum[:])
	return m, nil
}

// ofInfo is what the file system says of a file.
func ofInfo(s fs.FileInfo) Mark {
	m := Mark{Size: s.Size(), Written: s.ModTime().UTC()}
	if st, ok := s.Sys().(*syscall.Stat_t); ok {
		m.Device, m.Inode, m.Touched = uint64(st.Dev), st.Ino, time.Unix(st.Ctim.Unix()).UTC()
	}
	return m
}

// Still says whether the file system says the same of a file as in its mark, without a look into it. A
// folder is none of whose files is looked at, so it never does.
func (m Mark) Still(path string) bool {
	s, err := os.Stat(path)
	if err != nil || s.IsDir() {
		return false
	}
	now := ofInfo(s)
	now.Ends = m.Ends
	return m.Untouched(now)
}

// Touched is when content, name or permissions of a file changed last, the zero time for folders, where
// files have times of their own, and for what cannot be asked.
func Touched(path string) time.Time {
	s, err := os.Stat(path)
	if err != nil || s.IsDir() {
		return time.Time{}
	}
	return ofInfo(s).Touched
}

// ofFolder looks at all files in a folder; only their list is hashed.
func ofFolder(path string, s fs.FileInfo) (Mark, error) {
	parts, err := manifest.Parts(path)
	if err != nil {
		return Mark{}, err
	}
	m := ofInfo(s)
	m.Size, m.Written, m.Touched = 0, time.Time{}, time.Time{}
	h := sha256.New()
	for _, p := range parts {
		one := ofInfo(p)
		m.Size += one.Size
		if one.Written.After(m.Written) {
			m.Written = one.Written
		}
		if one.Touched.After(m.Touched) {
			m.Touched = one.Touched
		}
		fmt.Fprintf(h, "%q %d %d\n", p.Path, one.Size, one.Written.UnixNano())
	}
	m.Ends = hex.EncodeToString(h.Sum(nil))
	return m, nil
}

// Same says whether two marks are of one file with one content, as far as they tell: its
// permissions and links may have changed.
func (m Mark) Same(o Mark) bool {
	return m.Size == o.Size && m.Device == o.Device && m.Inode == o.Inode && m.Written.Equal(o.Written) && m.Ends == o.Ends
}

// Untouched is Same for marks that lie far apart in time: nothing of the file has changed,
// not even what a change of the content with its old time would leave behind.
func (m Mark) Untouched(o Mark) bool { return m.Same(o) && m.Touched.Equal(o.Touched) }

// changed is the text of the error by which IsChanged knows it, also after it was sent to
// another process.
const changed = "an input file changed while it was read"

// Verify compares a file with what it was.
//
// Errors: exit 66 if it was replaced, grew or was written to, or is gone.
func (m Mark) Verify(path string) error {
	now, err := Of(path)
	if err == nil && m.Same(now) {
		return nil
	}
	e := Changed(path, err)
	switch {
	case err != nil:
	case m.Inode != now.Inode || m.Device != now.Device:
		e.Why = "another file has its name now"
	case m.Size == now.Size && m.Written.Equal(now.Written):
		e.Why = "its first or last bytes, or the files in it, are others now"
	default:
		e.Why = fmt.Sprintf("it had %d bytes, last written at %s, and has %d of %s", m.Size, m.Written.Format(time.RFC3339Nano), now.Size, now.Written.Format(time.RFC3339Nano))
	}
	return e
}

// Changed is the error of a file or folder that is no longer what it was.
func Changed(at string, cause error) *exit.Error {
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
