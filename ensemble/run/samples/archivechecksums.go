package samples

import (
	"context"
	"errors"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/input"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/fingerprint"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/store"
	"golang.org/x/sync/errgroup"
)

// archiveChecksums is the checksums of input files, and what tells that the files stay the same.
type archiveChecksums struct {
	files    []manifest.File
	marks    []fingerprint.File
	reusable []store.InputChecksum // what may be relied on another time
}

// racyInterval is how long a file must have been left alone before what is learned of it is kept:
// a change within the tick of a file system's clock leaves no trace.
var racyInterval = 2 * time.Second

// checksumFiles measures input files, several at once. One that is known, and of which nothing has
// been touched since, is not read again.
//
// Errors: those of exit.ReadError; exit 66 for a file that changes meanwhile.
func checksumFiles(ctx context.Context, paths []string, known map[string]store.InputChecksum, p *progress.Reporter) (*archiveChecksums, error) {
	task := p.Start("checksums of the input", int64(len(paths)))
	defer task.Done()
	var done atomic.Int64
	m := &archiveChecksums{files: make([]manifest.File, len(paths)), marks: make([]fingerprint.File, len(paths)), reusable: make([]store.InputChecksum, len(paths))}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			mark, err := fingerprint.Of(path)
			if err != nil {
				return exit.ReadError(path, err)
			}
			m.marks[i] = mark
			if k := known[path]; k.SHA256 != "" && k.Mark.UnchangedSince(mark) {
				m.files[i], m.reusable[i] = manifest.File{Path: path, Size: mark.Size, SHA256: k.SHA256}, k
				task.Set(done.Add(1), "")
				return nil
			}
			rested := time.Since(mark.Changed) > racyInterval
			if m.files[i], err = manifest.SumFile(path); err != nil {
				return exit.ReadError(path, err)
			}
			if rested {
				m.reusable[i] = store.InputChecksum{Path: path, SHA256: m.files[i].SHA256, Mark: mark}
			}
			task.Set(done.Add(1), "")
			return changedArchiveError(mark.Verify(path))
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := m.reusable
	m.reusable = []store.InputChecksum{}
	for _, k := range all {
		if k.Path != "" {
			m.reusable = append(m.reusable, k)
		}
	}
	return m, nil
}

// verify verifies that files are as they were when they were measured.
func (m *archiveChecksums) verify() error {
	for i, f := range m.files {
		if err := changedArchiveError(m.marks[i].Verify(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

// changedArchiveError says of a changed file what is to be done with the store.
func changedArchiveError(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Why += "; what was read before and after may not belong together"
	c.Fix = "leave the input as it is, and run the same command with --overwrite always"
	return &c
}

// statsReader tallies the fields of an archive as they are read.
type statsReader struct {
	store.Reader
	mu    sync.Mutex        // workers may read an analysis at once
	stats *input.ValueStats // entries by place
}

// newStatsReader puts itself between an archive and who reads it.
func newStatsReader(a *store.FieldSource) *statsReader {
	j := &statsReader{Reader: a.Reader, stats: input.NewValueStats(input.FileOrder(a.Entries))}
	if a.Reader != nil {
		a.Reader = j
	}
	return j
}

// Read reads fields and tallies them.
func (j *statsReader) Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	return j.Reader.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		t := input.NewFieldStats(f.Values)
		j.mu.Lock()
		j.stats.Fields[j.index(entries[i])] = t
		j.mu.Unlock()
		return visit(i, f)
	})
}

// index is the place of an entry in the tally.
func (j *statsReader) index(e ensemble.Entry) int {
	all := j.stats.Entries
	at := sort.Search(len(all), func(k int) bool {
		if c := strings.Compare(all[k].File, e.File); c != 0 {
			return c > 0
		}
		return all[k].Message >= e.Message
	})
	for all[at].Sub != e.Sub {
		at++
	}
	return at
}
