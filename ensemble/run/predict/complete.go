package predict

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filemark"
	fio "github.com/ensemble-weather/ensemble/io"
)

// settled is how long after its last change a file is taken for complete at the first
// scan; else it must not change between two scans.
const settled = time.Minute

// longSettled is settled for times of the file system, whose clock may be another one.
const longSettled = time.Hour

// fileScanner tells files that are complete, scan by scan.
type fileScanner struct {
	policy *inputPolicy
	sparse bool
	states map[string]fileState // at the last scan
}

// fileState is what is known of a file as long as its mark is the same.
type fileState struct {
	mark     filemark.Mark
	since    time.Time // its mark was seen first, by the clock here
	sure     bool      // it was read when a later change must show in its times, however coarse they are
	judged   bool      // its structure was looked at
	why      string    // it is not whole; "" if it is
	complete bool
}

func newFileScanner(p *prediction) *fileScanner {
	return &fileScanner{policy: p.policy, sparse: p.o.Policy.Sparse}
}

// waited is a file that is not complete yet.
type waited struct {
	path, why string
	changing  bool // between two scans
	damaged   bool // by its structure
}

// sort tells complete files from those that are not. Files are read at each scan until they are settled; then
// the file system is asked whether they are the same, so that folders may have many old ones.
func (c *fileScanner) sort(files []string) (complete map[string]filemark.Mark, pending []waited) {
	complete = map[string]filemark.Mark{}
	states := map[string]fileState{}
	m := c.policy.Members
	for _, path := range files {
		s, known := c.states[path]
		before := s.mark
		var err error
		if !s.sure || !before.Still(path) {
			s.mark, err = filemark.Of(path)
			if err != nil || !known || !s.mark.Untouched(before) {
				s = fileState{mark: s.mark, since: time.Now()}
			}
			s.sure = err == nil && (time.Since(s.since) >= settled || time.Since(s.mark.Touched) >= longSettled)
		}
		wait := waited{path: path}
		switch {
		case err != nil:
			wait.why, wait.changing = err.Error(), true
		case s.sure && s.complete:
		case known && !s.mark.Same(before), !known && time.Since(s.mark.Written) < settled:
			wait.why, wait.changing = fmt.Sprintf("it is still being written, %d bytes so far", s.mark.Size), true
		case m.Done != "" && fio.Beside(path, m.Done) == "":
			wait.why = "there is no " + filepath.Base(path) + m.Done + " beside it"
		case m.Index != "":
			wait.why = indexed(path, m.Index, s.mark.Size)
		}
		if wait.why == "" {
			if !s.judged {
				s.why, s.judged = c.whole(path)
			}
			wait.why, wait.damaged = s.why, s.why != ""
		}
		if s.complete = wait.why == ""; s.complete {
			complete[path] = s.mark
		} else {
			pending = append(pending, wait)
		}
		states[path] = s
	}
	c.states = states
	return complete, pending
}

// whole says why a file is not whole, and whether that is known for good.
func (c *fileScanner) whole(path string) (why string, judged bool) {
	why, err := fio.Whole(path, fio.Options{Sparse: c.sparse})
	var e *exit.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(e.What + " " + e.Why), e.Code == exit.BadData
	}
	if err != nil {
		return err.Error(), false
	}
	return why, true
}

// indexed says why the index of a file does not show that it is complete, "" if it does:
// a row of it, JSON with _offset and _length or wgrib2's number:offset:…, lies behind the
// end, or it has none.
func indexed(path, ending string, size int64) string {
	name := fio.Beside(path, ending)
	if name == "" {
		return "there is no " + filepath.Base(path) + ending + " beside it"
	}
	err := fio.ReadIndex(name, func(row int, r fio.IndexRow) error {
		if r.End() > size {
			return fmt.Errorf("row %d of its index %s ends at byte %d, the file has %d", row, name, r.End(), size)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
