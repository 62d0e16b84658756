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
	"github.com/ensemble-weather/ensemble/internal/filemark"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/io/store"
	"golang.org/x/sync/errgroup"
)

// archiveSums is the checksums of input files, and what tells that the files stay the same.
type archiveSums struct {
	files []manifest.File
	marks []filemark.Mark
	known []store.Known // what may be relied on another time
}

// racy is how long a file must have been left alone before what is learned of it is kept:
// a change within the tick of a file system's clock leaves no trace.
var racy = 2 * time.Second

// sums measures input files, several at once. One that is known, and of which nothing has
// been touched since, is not read again.
//
// Errors: those of exit.Read; exit 66 for a file that changes meanwhile.
func sums(ctx context.Context, paths []string, known map[string]store.Known, p *progress.Reporter) (*archiveSums, error) {
	task := p.Start("checksums of the input", int64(len(paths)))
	defer task.Done()
	var done atomic.Int64
	m := &archiveSums{files: make([]manifest.File, len(paths)), marks: make([]filemark.Mark, len(paths)), known: make([]store.Known, len(paths))}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			mark, err := filemark.Of(path)
			if err != nil {
				return exit.Read(path, err)
			}
			m.marks[i] = mark
			if k := known[path]; k.SHA256 != "" && k.Mark.Untouched(mark) {
				m.files[i], m.known[i] = manifest.File{Path: path, Size: mark.Size, SHA256: k.SHA256}, k
				task.Set(done.Add(1), "")
				return nil
			}
			rested := time.Since(mark.Touched) > racy
			if m.files[i], err = manifest.SumFile(path); err != nil {
				return exit.Read(path, err)
			}
			if rested {
				m.known[i] = store.Known{Path: path, SHA256: m.files[i].SHA256, Mark: mark}
			}
			task.Set(done.Add(1), "")
			return changedArchive(mark.Verify(path))
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := m.known
	m.known = []store.Known{}
	for _, k := range all {
		if k.Path != "" {
			m.known = append(m.known, k)
		}
	}
	return m, nil
}

// unchanged verifies that files are as they were when they were measured.
func (m *archiveSums) unchanged() error {
	for i, f := range m.files {
		if err := changedArchive(m.marks[i].Verify(f.Path)); err != nil {
			return err
		}
	}
	return nil
}

// changedArchive says of a changed file what is to be done with the store.
func changedArchive(err error) error {
	var e *exit.Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Why += "; what was read before and after may not belong together"
	c.Fix = "leave the input as it is, and run the same command with --overwrite always"
	return &c
}

// witness tallies the fields of an archive as they are read.
type witness struct {
	store.Reader
	mu    sync.Mutex        // workers may read an analysis at once
	tally *input.ValueStats // entries by place
}

// newWitness puts itself between an archive and who reads it.
func newWitness(a *store.Archive) *witness {
	j := &witness{Reader: a.Reader, tally: input.NewValueStats(input.ByPlace(a.Entries))}
	if a.Reader != nil {
		a.Reader = j
	}
	return j
}

// Read reads fields and tallies them.
func (j *witness) Read(ctx context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	return j.Reader.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		t := input.TallyOf(f.Values)
		j.mu.Lock()
		j.tally.Fields[j.index(entries[i])] = t
		j.mu.Unlock()
		return visit(i, f)
	})
}

// index is the place of an entry in the tally.
func (j *witness) index(e ensemble.Entry) int {
	all := j.tally.Entries
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
