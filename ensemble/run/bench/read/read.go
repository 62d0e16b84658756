package read

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
	"github.com/ensemble-weather/ensemble/internal/digits"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/progress"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// Options are the inputs of [Run].
type Options struct {
	Files    []string // each is measured separately; a prediction takes all
	Rounds   int      // 0: 7; predictions at most 3
	OpenOnly bool     // read no values
	RunDir   string   // finished training: measure predictions with it instead of the files; empty: none
	Out      string   // folder in which products remain; empty: a temporary one
	Threads  int      // threads of predictions; 0: all
	Program  []string // starts this program, for predictions
	Progress *progress.Reporter
}

// Report is the result.
type Report struct {
	Files      []File      `json:"files"`
	Prediction *Prediction `json:"prediction,omitempty"`
}

// File is the speed of opening and reading one file, with decoding processes running and the file in memory.
type File struct {
	Path           string            `json:"path"`
	Fields         int               `json:"fields"`
	Values         int               `json:"values"`                    // values of all fields
	Open           benchstats.Times  `json:"open_ms"`                   // until the catalogue is complete
	Read           *benchstats.Times `json:"read_ms,omitempty"`         // nil with Options.OpenOnly
	CatalogueBytes float64           `json:"catalogue_bytes_per_field"` // memory of the catalogue
}

// Run measures every file, or predictions from all of them.
//
// Memory: the values of one file.
// Errors: exit 64 without files; those of opening and reading, and of a prediction; ctx.Err().
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Rounds == 0 {
		o.Rounds = 7
	}
	if len(o.Files) == 0 || o.Rounds < 1 || o.Threads < 0 || o.RunDir != "" && len(o.Program) == 0 {
		return nil, &exit.Error{Code: exit.Usage, What: "invalid options", Why: fmt.Sprintf("%d files, %d rounds, %d threads", len(o.Files), o.Rounds, o.Threads), Fix: "give at least one file and one round"}
	}
	r := &Report{Files: []File{}}
	if o.RunDir != "" {
		p, err := o.predict(ctx)
		r.Prediction = p
		return r, err
	}
	pool, err := decode.NewPool(decode.Options{})
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	task := o.Progress.Start("bench", int64(len(o.Files)))
	defer task.Done()
	for i, path := range o.Files {
		task.Set(int64(i), path)
		f, err := o.file(ctx, pool, path)
		if err != nil {
			return nil, err
		}
		r.Files = append(r.Files, *f)
	}
	return r, nil
}

// file measures one file. A first round, which does not count, starts the decoding processes and loads the
// file into memory.
func (o Options) file(ctx context.Context, pool *decode.Pool, path string) (*File, error) {
	f := &File{Path: path}
	var into [][]float32
	round := func(opened func(*fio.Input)) (open, read time.Duration, err error) {
		begin := time.Now()
		in, err := fio.Open(ctx, []string{path}, fio.Options{Pool: pool})
		if err != nil {
			return 0, 0, err
		}
		defer in.Close()
		open = time.Since(begin)
		opened(in)
		if o.OpenOnly {
			return open, 0, nil
		}
		begin = time.Now()
		err = in.ReadInto(ctx, in.Catalogue().Entries, ensemble.Window{}, func(i int) ([]float32, error) { return into[i], nil }, func(int) error { return nil })
		return open, time.Since(begin), err
	}
	before := heap()
	if _, _, err := round(func(in *fio.Input) {
		entries := in.Catalogue().Entries
		f.CatalogueBytes = float64(heap()-before) / float64(max(1, len(entries)))
		f.Fields, into = len(entries), make([][]float32, len(entries))
		for i, e := range entries {
			f.Values += e.Grid.Size()
			if !o.OpenOnly {
				into[i] = make([]float32, e.Grid.Size())
			}
		}
	}); err != nil {
		return nil, err
	}
	if f.Fields == 0 {
		return nil, &exit.Error{Code: exit.BadData, What: "no fields to read", At: path, Fix: "list its content: ensemble inspect " + path}
	}
	var opens, reads []time.Duration
	for range o.Rounds {
		open, read, err := round(func(*fio.Input) {})
		if err != nil {
			return nil, err
		}
		opens, reads = append(opens, open), append(reads, read)
	}
	f.Open = benchstats.TimesOf(opens)
	if !o.OpenOnly {
		t := benchstats.TimesOf(reads)
		f.Read = &t
	}
	return f, nil
}

// heap returns the live heap in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // a second collection frees what finalizers held
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// Sections returns the report as text.
func (r *Report) Sections() answer.Sections {
	if p := r.Prediction; p != nil {
		return answer.Sections{answer.FactsSection([2]string{"prediction", fmt.Sprintf("%s ms [%s–%s] from cold process to written files, %d rounds", digits.Three(p.MS.Median), digits.Three(p.MS.Min), digits.Three(p.MS.Max), p.MS.N)},
			[2]string{"peak memory", fmt.Sprintf("%.0f MiB of the process and its children", p.PeakMiB)})}
	}
	s := answer.Section{Columns: append(answer.TextColumns("file"), answer.NumberColumn("fields", "", ""), answer.NumberColumn("open", "ms", ""), answer.NumberColumn("read", "ms", ""), answer.NumberColumn("a field", "µs", ""),
		answer.NumberColumn("values", "GB/s", "%.2f"), answer.NumberColumn("catalogue", "bytes a field", "%.0f")),
		Notes: []string{"Medians; the file is in memory, and the decoding processes are running."}}
	for _, f := range r.Files {
		row := []any{f.Path, f.Fields, digits.Three(f.Open.Median), nil, nil, nil, f.CatalogueBytes}
		if t := f.Read; t != nil {
			row[3], row[4], row[5] = digits.Three(t.Median), digits.Three(1e3*t.Median/float64(f.Fields)), 4*float64(f.Values)/t.Median/1e6
		}
		s.Rows = append(s.Rows, row)
	}
	return answer.Sections{s}
}
