package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/table"
)

// mostMeta bounds store.json, so that a file of another kind is not read whole.
const mostMeta = 256 << 20

// OpenOptions say how to open a store. The zero value verifies all that is read.
type OpenOptions struct {
	// NoVerify leaves the checksums of values out; those of heads, without which
	// nothing can be read, are always verified.
	NoVerify bool
}

// Store is a store that can be read, by several goroutines at once.
type Store struct {
	*Meta
	*layout
	dir    string
	root   *os.Root // links that lead out of the store are not followed
	opt    OpenOptions
	heads  []uint32 // CRC-32C of the head of each band, start by start
	buffer sync.Pool
}

// Holds tells whether a folder holds a store.
func Holds(dir string) bool {
	s, err := os.Stat(filepath.Join(dir, metaName))
	return err == nil && s.Mode().IsRegular()
}

// Open opens a store. It reads the description and the index, and no values.
//
// Errors: 66 if there is no store, or one that is not finished; 65 if it is damaged or
// of a format that is newer than the program; 74 if reading fails.
func Open(ctx context.Context, dir string, o OpenOptions) (*Store, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, exit.Read(dir, err)
	}
	s := &Store{dir: dir, root: root, opt: o}
	if err := s.open(ctx); err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	text, err := s.small(metaName)
	if err != nil {
		if _, begun := s.root.Stat(journalDir); begun == nil && errors.Is(err, fs.ErrNotExist) {
			return &exit.Error{Code: exit.NotYet, What: "the store is not finished", At: s.dir, Why: "it has no " + metaName,
				Fix: "wait, or run the command that makes it again"}
		}
		return exit.Read(filepath.Join(s.dir, metaName), err)
	}
	if s.Meta, err = readMeta(s.dir, text); err != nil {
		return err
	}
	if s.layout, err = s.Meta.layout(); err != nil {
		return err
	}
	rows, err := s.index(ctx)
	if err != nil {
		return err
	}
	if s.heads, err = s.checkIndex(rows); err != nil {
		return s.damaged(indexName, err.Error())
	}
	for _, f := range s.Shards {
		st, err := s.root.Stat(filepath.FromSlash(f.Path))
		if err != nil {
			return s.unreadable(f.Path, err)
		}
		if st.Size() != f.Size {
			return s.damaged(f.Path, fmt.Sprintf("%d bytes, want %d", st.Size(), f.Size))
		}
	}
	return nil
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return s.dir }

// Close closes the store.
func (s *Store) Close() error { return s.root.Close() }

// small reads a file of the store that is read whole.
func (s *Store) small(name string) ([]byte, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostMeta+1))
	if err == nil && len(text) > mostMeta {
		err = fmt.Errorf("more than %d bytes", mostMeta)
	}
	return text, err
}

// readMeta reads the text of store.json of a folder.
func readMeta(dir string, text []byte) (*Meta, error) {
	return decodeMeta(text, filepath.Join(dir, metaName), migrations)
}

// index reads the rows of the index, which are those that the description vouches for.
func (s *Store) index(ctx context.Context) ([]Row, error) {
	text, err := s.small(indexName)
	if err != nil {
		return nil, s.unreadable(indexName, err)
	}
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != s.Index.SHA256 {
		return nil, s.damaged(indexName, "its SHA-256 differs from that in "+metaName)
	}
	return table.Decode[Row](ctx, filepath.Join(s.dir, indexName), text)
}

// checkIndex verifies that the rows are those of the layout, and gives the checksums of
// heads.
func (s *Store) checkIndex(rows []Row) ([]uint32, error) {
	if len(rows) != s.starts*s.bands {
		return nil, fmt.Errorf("%d rows, want %d", len(rows), s.starts*s.bands)
	}
	heads := make([]uint32, len(rows))
	for n, r := range rows {
		i, b := n/s.bands, n%s.bands
		shard, at := s.place(i)
		lo, hi := s.rows(b)
		want := Row{Init: s.Starts[i].UTC(), Band: b, FirstRow: lo, Rows: hi - lo, Shard: shard, Offset: at + s.bandAt(b), Length: s.bandBytes(b), Head: r.Head, Missing: r.Missing}
		if !r.Init.Equal(want.Init) {
			return nil, fmt.Errorf("row %d is of the start %s, want %s", n, r.Init, want.Init)
		}
		if r.Init = want.Init; r != want {
			return nil, fmt.Errorf("row %d is %+v, want %+v", n, r, want)
		}
		heads[n] = uint32(r.Head)
	}
	return heads, nil
}

func (s *Store) damaged(name, why string) error {
	return &exit.Error{Code: exit.BadData, What: "the store is damaged", At: filepath.Join(s.dir, name), Why: why,
		Fix: "restore the file, or remove the store and prepare it again"}
}

func (s *Store) unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return s.damaged(name, "the file is not there")
	}
	return exit.Read(filepath.Join(s.dir, name), err)
}

// Selection is what to read of a start. The zero value is all; a list that is not nil
// has what is wanted in the order in which it is wanted.
type Selection struct {
	Variables []string
	Levels    []ensemble.Level // of forecasts and analyses
	Leads     []ensemble.Lead
	Members   []ensemble.Member
	Window    ensemble.Window

	AnalysisVariables []string
	AnalysisLeads     []ensemble.Lead
}

// Read reads a start: its forecast, and its analyses in the order of their leads.
//
// Memory: what it gives, and a buffer of 16 MiB or one part of a band if that is more.
// Errors: 66 for a start that is not in the store; 64 for a selection that is not; 65
// for a checksum that differs, naming shard and byte; 74 if reading fails; ctx.Err().
// Cost: reads whole rows of the bands that the window meets.
func (s *Store) Read(ctx context.Context, init ensemble.Init, sel Selection) (*ensemble.Forecast, []*ensemble.Analysis, error) {
	i, found := slices.BinarySearchFunc(s.Starts, init, func(a time.Time, b ensemble.Init) int { return a.Compare(b.Time) })
	if !found {
		return nil, nil, &exit.Error{Code: exit.NotYet, What: "a start is not in the store", At: s.dir, Why: init.String(), Fix: "prepare a store that has it"}
	}
	q, err := s.query(init, sel)
	if err != nil {
		return nil, nil, err
	}
	shard, at := s.place(i)
	f, err := s.root.Open(filepath.FromSlash(s.Shards[shard].Path))
	if err != nil {
		return nil, nil, s.unreadable(s.Shards[shard].Path, err)
	}
	defer f.Close()
	for b := range s.bands {
		lo, hi := s.rows(b)
		if hi <= q.window.Rows[0] || lo >= q.window.Rows[1] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := s.readBand(f, shard, at+s.bandAt(b), b, i, q); err != nil {
			return nil, nil, err
		}
	}
	return q.forecast, q.analyses, nil
}

// query is a selection in positions, and what it fills.
type query struct {
	window   ensemble.Window
	forecast *ensemble.Forecast
	analyses []*ensemble.Analysis
	want     []bool // parts
	// of a part, its field (variable, level) if it is wanted, else nil
	field func(p, v, l int) []float32
	init  int64
}

// positions gives the place of each of what is offered among what is wanted, −1 for
// none.
func positions[T comparable](what string, offered, wanted []T) ([]int, error) {
	at := make([]int, len(offered))
	for i, x := range offered {
		at[i] = slices.Index(wanted, x)
	}
	for _, x := range wanted {
		if !slices.Contains(offered, x) {
			return nil, fmt.Errorf("%s %v is not in the store", what, x)
		}
	}
	return at, distinct(what, wanted)
}

func orAll[T any](wanted, all []T) []T {
	if wanted == nil {
		return all
	}
	return wanted
}

func (s *Store) query(init ensemble.Init, sel Selection) (*query, error) {
	own := s.Axes()
	all := ensemble.Window{Rows: [2]int{0, s.ny}, Cols: [2]int{0, s.nx}}
	q := &query{window: sel.Window, init: init.Unix(), want: make([]bool, len(s.parts))}
	if q.window == (ensemble.Window{}) {
		q.window = all
	}
	axes := ensemble.Axes{Variables: orAll(sel.Variables, own.Variables), Levels: orAll(sel.Levels, own.Levels), Leads: orAll(sel.Leads, own.Leads)}
	members := orAll(sel.Members, s.Members)
	ownLeads := s.AnalysisLeads()
	variables, analysisLeads := orAll(sel.AnalysisVariables, s.Meta.Analyses.Variables), orAll(sel.AnalysisLeads, ownLeads)

	v, err1 := positions("variable", own.Variables, axes.Variables)
	l, err2 := positions("level", own.Levels, axes.Levels)
	t, err3 := positions("lead", own.Leads, axes.Leads)
	m, err4 := positions("member", s.Members, members)
	av, err5 := positions("analysis of", s.Meta.Analyses.Variables, variables)
	at, err6 := positions("analysis at lead", ownLeads, analysisLeads)
	err := errors.Join(err1, err2, err3, err4, err5, err6)
	for _, x := range [][3]int{{q.window.Rows[0], q.window.Rows[1], s.ny}, {q.window.Cols[0], q.window.Cols[1], s.nx}} {
		if x[0] < 0 || x[0] > x[1] || x[1] > x[2] {
			err = errors.Join(err, fmt.Errorf("a window from %d to %d of %d", x[0], x[1], x[2]))
		}
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the store does not hold what is asked for", At: s.dir, Why: err.Error(),
			Fix: "`ensemble inspect` says what it holds; prepare one that has more", Err: err}
	}
	grid := s.Grid.Part(q.window)
	q.forecast = ensemble.NewForecast(init, axes, members, grid)
	for _, lead := range analysisLeads {
		q.analyses = append(q.analyses, ensemble.NewAnalysis(init.Valid(lead), variables, axes.Levels, grid))
	}
	for p, part := range s.parts {
		if part.member == analysis {
			q.want[p] = at[part.lead] >= 0 && len(variables) > 0
		} else {
			q.want[p] = t[part.lead] >= 0 && m[part.member] >= 0
		}
	}
	q.field = func(p, vi, li int) []float32 {
		part := s.parts[p]
		switch {
		case l[li] < 0:
			return nil
		case part.member != analysis && v[vi] >= 0:
			return q.forecast.Field(t[part.lead], m[part.member], v[vi], l[li])
		case part.member == analysis && av[vi] >= 0:
			return q.analyses[at[part.lead]].Field(av[vi], l[li])
		}
		return nil
	}
	return q, nil
}

// longest is the most that is read at once, unless a part of a band is longer.
const longest = 16 << 20

// readBand reads the wanted parts of band b of start i, which lies at a place of a shard:
// the head, then runs of parts.
func (s *Store) readBand(f io.ReaderAt, shard int, at int64, b, i int, q *query) error {
	name := s.Shards[shard].Path
	lo, hi := s.rows(b)
	rows := hi - lo
	// The first run begins with the head.
	p := 0
	end := s.head
	h := (*head)(nil)
	from := int64(0)
	for {
		first := p
		for p < len(s.parts) && q.want[p] && (end == from || s.partAt(p, rows)+s.partBytes(p, rows)-from <= longest) {
			end = s.partAt(p, rows) + s.partBytes(p, rows)
			p++
		}
		if end > from {
			text, back, err := s.bytes(f, at+from, end-from)
			if err != nil {
				return exit.Read(filepath.Join(s.dir, name), err)
			}
			if h == nil {
				if h, err = s.readHead(text, name, at, b, i, q.init); err != nil {
					back()
					return err
				}
			}
			for k := first; k < p; k++ {
				in := text[s.partAt(k, rows)-from:][:s.partBytes(k, rows)]
				if !s.opt.NoVerify && crc32.Checksum(in, castagnoli) != h.sums[k] {
					back()
					return s.damaged(name, fmt.Sprintf("the checksum of %d bytes at %d differs", len(in), at+s.partAt(k, rows)))
				}
				s.take(k, in, h, lo, hi, q)
			}
			back()
		}
		for p < len(s.parts) && !q.want[p] {
			p++
		}
		if p == len(s.parts) {
			return nil
		}
		from = s.partAt(p, rows)
		end = from
	}
}

// bytes reads a piece of a file into a buffer that back gives back.
func (s *Store) bytes(f io.ReaderAt, at, n int64) (text []byte, back func(), err error) {
	b, _ := s.buffer.Get().(*[]byte)
	if b == nil || int64(cap(*b)) < n {
		b = new([]byte)
		*b = make([]byte, n)
	}
	back = func() { s.buffer.Put(b) }
	text = (*b)[:n]
	if _, err = f.ReadAt(text, at); err != nil {
		back()
		return nil, nil, err
	}
	return text, back, nil
}

// readHead reads the head of a band.
func (s *Store) readHead(text []byte, name string, at int64, b, i int, init int64) (*head, error) {
	if crc32.Checksum(text[:s.head], castagnoli) != s.heads[i*s.bands+b] {
		return nil, s.damaged(name, fmt.Sprintf("the checksum of the head of a band at %d differs from that in the index", at))
	}
	h, err := s.decodeHead(text, b, init)
	if err != nil {
		return nil, s.damaged(name, fmt.Sprintf("%v, at %d", err, at))
	}
	return h, nil
}

// take decodes the wanted fields of a part, rows lo to before hi of the grid.
func (s *Store) take(p int, in []byte, h *head, lo, hi int, q *query) {
	w := q.window
	nx := w.Cols[1] - w.Cols[0]
	part := s.parts[p]
	size := s.fieldBytes(hi - lo)
	for v := range part.vars {
		for l := range s.levels {
			to := q.field(p, v, l)
			if to == nil {
				continue
			}
			n := v*s.levels + l
			from := in[int64(n)*size:][:size]
			r := &h.records[part.first+n]
			for j := max(lo, w.Rows[0]); j < min(hi, w.Rows[1]); j++ {
				row := from[int64((j-lo)*s.nx+w.Cols[0])*s.elem:]
				s.Storage.decode(to[(j-w.Rows[0])*nx:][:nx], row[:int64(nx)*s.elem], r)
			}
		}
	}
}

// Verify reads the whole store and compares all its checksums.
//
// Errors: as Read.
func (s *Store) Verify(ctx context.Context) error {
	for _, want := range s.Shards {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := s.root.Open(filepath.FromSlash(want.Path))
		if err != nil {
			return s.unreadable(want.Path, err)
		}
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return exit.Read(filepath.Join(s.dir, want.Path), err)
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
			return s.damaged(want.Path, "its SHA-256 differs from that in "+metaName)
		}
	}
	return nil
}

// Files are the description and what it vouches for, the description first.
func (s *Store) Files() ([]manifest.File, error) {
	f, err := manifest.Sum(filepath.Join(s.dir, metaName))
	return append(f, append([]manifest.File{s.Index}, s.Shards...)...), err
}
