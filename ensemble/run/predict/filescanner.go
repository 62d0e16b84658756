package predict

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/internal/backoff"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	fio "github.com/ensemble-weather/ensemble/io"
)

// settleTime is the time without change after which a file counts as complete at the first scan. Otherwise it
// must be unchanged in two successive scans.
const settleTime = time.Minute

// longSettleTime is settleTime for files whose times come from another clock, such as on a network file system.
const longSettleTime = time.Hour

// fileScanner separates complete from incomplete files, scan by scan.
type fileScanner struct {
	policy *inputPolicy
	now    func() time.Time // to which times of files are compared
	pauses backoff.Clock
	sparse bool
	states map[string]fileState // by path, at the last scan
}

// fileState is what is known of a file while its mark (size, times, inode) stays the same.
type fileState struct {
	mark     fingerprint.File
	since    time.Time // local time at which the mark was first seen
	settled  bool      // a later change must show in the file's times, however coarse they are
	checked  bool      // its structure was checked
	reason   string    // why it is incomplete; "" if complete
	complete bool
}

// newFileScanner returns a scanner for the input of a prediction.
func newFileScanner(p *prediction) *fileScanner {
	return &fileScanner{policy: p.policy, now: p.options.Clock.Now, pauses: p.options.Clock.Pauses, sparse: p.options.Policy.AllowMissingChunks}
}

// pendingFile is a file that is not complete.
type pendingFile struct {
	path, reason string
	changing     bool // changed between two scans
	damaged      bool // by its structure
}

// classify separates complete files from pending ones. Files are read at each scan until they are settled. Then
// only their marks are compared, so that folders may contain many old files.
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
				s = fileState{mark: s.mark, since: c.pauses.Now()}
			}
			s.settled = err == nil && (c.pauses.Now().Sub(s.since) >= settleTime || c.now().Sub(s.mark.Changed) >= longSettleTime)
		}
		wait := pendingFile{path: path}
		switch {
		case err != nil:
			wait.reason, wait.changing = err.Error(), true
		case s.settled && s.complete:
		case known && !s.mark.IsSameContent(before), !known && c.now().Sub(s.mark.Modified) < settleTime:
			wait.reason, wait.changing = fmt.Sprintf("it is still being written (%d bytes so far)", s.mark.Size), true
		case m.DoneSuffix != "" && fio.Sidecar(path, m.DoneSuffix) == "":
			wait.reason = "missing " + filepath.Base(path) + m.DoneSuffix + " beside it"
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

// checkComplete returns why a file is not complete, and whether that is final.
func (c *fileScanner) checkComplete(path string) (why string, final bool) {
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

// checkIndex checks a file against its index, JSON with _offset and _length or wgrib2's number:offset:… It
// returns why the index does not show that the file is complete: a row ends behind the end of the file, or
// the index is missing.
func checkIndex(path, ending string, size int64) string {
	name := fio.Sidecar(path, ending)
	if name == "" {
		return "missing " + filepath.Base(path) + ending + " beside it"
	}
	err := fio.ReadIndex(name, func(row int, r fio.IndexRow) error {
		if r.End() > size {
			return fmt.Errorf("row %d of its index %s ends at byte %d, but the file has %d bytes", row, name, r.End(), size)
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	return ""
}
