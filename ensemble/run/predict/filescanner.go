package predict

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	fio "github.com/ensemble-weather/ensemble/io"
)

// settleTime is how long after its last change a file is taken for complete at the first
// scan; else it must not change between two scans.
const settleTime = time.Minute

// longSettleTime is settled for times of the file system, whose clock may be another one.
const longSettleTime = time.Hour

// fileScanner tells files that are complete, scan by scan.
type fileScanner struct {
	policy *inputPolicy
	sparse bool
	states map[string]fileState // at the last scan
}

// fileState is what is known of a file as long as its mark is the same.
type fileState struct {
	mark     fingerprint.File
	since    time.Time // its mark was seen first, by the clock here
	settled  bool      // it was read when a later change must show in its times, however coarse they are
	checked  bool      // its structure was looked at
	reason   string    // it is not whole; "" if it is
	complete bool
}

func newFileScanner(p *prediction) *fileScanner {
	return &fileScanner{policy: p.policy, sparse: p.options.Policy.AllowMissingChunks}
}

// pendingFile is a file that is not complete yet.
type pendingFile struct {
	path, reason string
	changing     bool // between two scans
	damaged      bool // by its structure
}

// classify tells complete files from those that are not. Files are read at each scan until they are settled; then
// the file system is asked whether they are the same, so that folders may have many old ones.
func (c *fileScanner) classify(files []string) (complete map[string]fingerprint.File, pending []pendingFile) {
	complete = map[string]fingerprint.File{}
	states := map[string]fileState{}
	m := c.policy.Members
	for _, path := range files {
		s, known := c.states[path]
		before := s.mark
		var err error
		if !s.settled || !before.IsStatEqual(path) {
			s.mark, err = fingerprint.Of(path)
			if err != nil || !known || !s.mark.UnchangedSince(before) {
				s = fileState{mark: s.mark, since: time.Now()}
			}
			s.settled = err == nil && (time.Since(s.since) >= settleTime || time.Since(s.mark.Changed) >= longSettleTime)
		}
		wait := pendingFile{path: path}
		switch {
		case err != nil:
			wait.reason, wait.changing = err.Error(), true
		case s.settled && s.complete:
		case known && !s.mark.IsSameContent(before), !known && time.Since(s.mark.Modified) < settleTime:
			wait.reason, wait.changing = fmt.Sprintf("it is still being written, %d bytes so far", s.mark.Size), true
		case m.DoneSuffix != "" && fio.Sidecar(path, m.DoneSuffix) == "":
			wait.reason = "there is no " + filepath.Base(path) + m.DoneSuffix + " beside it"
		case m.IndexSuffix != "":
			wait.reason = checkIndex(path, m.IndexSuffix, s.mark.Size)
		}
		if wait.reason == "" {
			if !s.checked {
				s.reason, s.checked = c.checkComplete(path)
			}
			wait.reason, wait.damaged = s.reason, s.reason != ""
		}
		if s.complete = wait.reason == ""; s.complete {
			complete[path] = s.mark
		} else {
			pending = append(pending, wait)
		}
		states[path] = s
	}
	c.states = states
	return complete, pending
}

// checkComplete says why a file is not whole, and whether that is known for good.
func (c *fileScanner) checkComplete(path string) (why string, judged bool) {
	why, err := fio.CheckComplete(path, fio.Options{Sparse: c.sparse})
	var e *exit.Error
	if errors.As(err, &e) {
		return strings.TrimSpace(e.What + " " + e.Why), e.Code == exit.BadData
	}
	if err != nil {
		return err.Error(), false
	}
	return why, true
}

// checkIndex says why the index of a file does not show that it is complete, "" if it does:
// a row of it, JSON with _offset and _length or wgrib2's number:offset:…, lies behind the
// end, or it has none.
func checkIndex(path, ending string, size int64) string {
	name := fio.Sidecar(path, ending)
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
