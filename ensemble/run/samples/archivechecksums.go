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

// archiveChecksums are the checksums of input files, and the marks that show that files are unchanged.
type archiveChecksums struct {
	files    []manifest.File
	marks    []fingerprint.File
	reusable []store.InputChecksum // checksums that later runs may reuse
}

// racyInterval is the time that a file must be unchanged before its checksum is reused: changes within the resolution
// of a file system's clock are not visible in its times.
var racyInterval = 2 * time.Second

// checksumFiles computes the checksums of input files in parallel. A file with a known checksum that is unchanged is
// not read again.
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

// verify verifies that the files are unchanged since their checksums were computed.
func (m *archiveChecksums) verify() error {
	for i, f := range m.files {
		if err := changedArchiveError(m.marks[i].Verify(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

// changedArchiveError adds to the error of a changed file what to do with the store.
func changedArchiveError(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Why += "; data read before and after the change may be inconsistent"
	c.Fix = "do not modify the input, and run the same command with --overwrite always"
	return &c
}

// statsReader wraps an archive and collects statistics of the fields as they are read.
type statsReader struct {
	store.Reader
	mu    sync.Mutex        // several workers may read an analysis
	stats *input.ValueStats // entries in file order
}

// newStatsReader wraps an archive.
func newStatsReader(a *store.FieldSource) *statsReader {
	j := &statsReader{Reader: a.Reader, stats: input.NewValueStats(input.FileOrder(a.Entries))}
	if a.Reader != nil {
		a.Reader = j
	}
	return j
}

// Read reads fields and adds them to the statistics.
func (j *statsReader) Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	return j.Reader.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		t := input.NewFieldStats(f.Values)
		j.mu.Lock()
		j.stats.Fields[j.index(entries[i])] = t
		j.mu.Unlock()
		return visit(i, f)
	})
}

// index is the position of an entry in the statistics.
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
