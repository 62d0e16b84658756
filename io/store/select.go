package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/bigmem"
	"github.com/ensemble-weather/ensemble/internal/directio"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
)

// Selection selects a part of an initialisation. The zero value is everything. A
// list that is not nil holds the wanted items in the wanted order.
type Selection struct {
	// Variables of the forecasts.
	Variables []string
	Levels    []ensemble.Level // of forecasts and analyses
	// Leads and Members of the forecasts.
	Leads   []ensemble.Lead
	Members []ensemble.Member
	// Window is a part of the grid; the zero value is the complete grid.
	Window ensemble.Window

	// AnalysisVariables and AnalysisLeads select analyses.
	AnalysisVariables []string
	AnalysisLeads     []ensemble.Lead
}

// Sample is an initialisation as it is read: its forecast, and its analyses in the
// order of their leads.
type Sample struct {
	Forecast *ensemble.Forecast
	Analyses []*ensemble.Analysis
}

// SelectionReader reads the same selection of any initialisation. It may be used by
// several goroutines.
type SelectionReader struct {
	s *Store
	// window, grid, axes and members are those of the result.
	window  ensemble.Window
	grid    *ensemble.Grid
	axes    ensemble.Axes
	members []ensemble.Member

	variables []string // variables and leads of the analyses
	leads     []ensemble.Lead

	// position of each item of the store in the selection, −1 if not selected:
	// leads, members, variables, levels, analysed variables, analysis leads
	t, m, v, l, av, at []int
	// wantedParts marks the parts with selected fields.
	wantedParts []bool
	// first and last are the bands that overlap the window; last < first for an
	// empty window.
	first, last int
}

// Select returns a reader of a selection.
//
// Errors: 64 for a selection that is not in the store.
func (s *Store) Select(sel Selection) (*SelectionReader, error) {
	own := s.Axes()
	r := &SelectionReader{s: s, window: sel.Window, wantedParts: make([]bool, len(s.parts))}
	if r.window == (ensemble.Window{}) {
		r.window = ensemble.Window{Rows: [2]int{0, s.ny}, Cols: [2]int{0, s.nx}}
	}
	r.axes = ensemble.Axes{Variables: defaultTo(sel.Variables, own.Variables), Levels: defaultTo(sel.Levels, own.Levels), Leads: defaultTo(sel.Leads, own.Leads)}
	r.members = defaultTo(sel.Members, s.Members)
	ownLeads := s.AnalysisLeads()
	r.variables, r.leads = defaultTo(sel.AnalysisVariables, s.Meta.Analyses.Variables), defaultTo(sel.AnalysisLeads, ownLeads)

	var errs [6]error
	r.v, errs[0] = positions("variable", own.Variables, r.axes.Variables)
	r.l, errs[1] = positions("level", own.Levels, r.axes.Levels)
	r.t, errs[2] = positions("lead", own.Leads, r.axes.Leads)
	r.m, errs[3] = positions("member", s.Members, r.members)
	r.av, errs[4] = positions("analysis of", s.Meta.Analyses.Variables, r.variables)
	r.at, errs[5] = positions("analysis at lead", ownLeads, r.leads)
	err := errors.Join(errs[:]...)
	for _, x := range [][3]int{{r.window.Rows[0], r.window.Rows[1], s.ny}, {r.window.Cols[0], r.window.Cols[1], s.nx}} {
		if x[0] < 0 || x[0] > x[1] || x[1] > x[2] {
			err = errors.Join(err, fmt.Errorf("window from %d to %d exceeds the grid of %d", x[0], x[1], x[2]))
		}
	}
	if err != nil {
		return nil, &exit.Error{Code: exit.Usage, What: "the store does not hold the selection", At: s.dir, Why: err.Error(),
			Fix: "list its content with `ensemble inspect`, or prepare a store that has it", Err: err}
	}
	r.grid = s.Grid.Subgrid(r.window)
	for p, part := range s.parts {
		if part.member == analysis {
			r.wantedParts[p] = r.at[part.lead] >= 0 && len(r.variables) > 0
		} else {
			r.wantedParts[p] = r.t[part.lead] >= 0 && r.m[part.member] >= 0
		}
	}
	// Bands hold complete rows, so the rows of the window decide.
	r.first = r.window.Rows[0] / s.bandRows
	r.last = r.first - 1
	if r.window.Rows[1] > r.window.Rows[0] {
		r.last = (r.window.Rows[1] - 1) / s.bandRows
	}
	return r, nil
}

// positions returns the position of each offered item in the wanted list, −1 if it
// is not wanted.
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

// defaultTo returns wanted, or all if wanted is nil.
func defaultTo[T any](wanted, all []T) []T {
	if wanted == nil {
		return all
	}
	return wanted
}

// Values returns the number of values of a sample.
func (r *SelectionReader) Values() int64 {
	fields := r.axes.Fields()*len(r.members) + len(r.leads)*len(r.variables)*len(r.axes.Levels)
	return int64(fields) * int64(r.grid.Size())
}

// Bytes returns the number of bytes that reading an initialisation takes, and their
// span in the file from the first to the last.
//
// The span exceeds the sum if parts between the selected ones are skipped.
func (r *SelectionReader) Bytes() (bytes, span int64) {
	s := r.s
	if r.last < r.first {
		return 0, 0
	}
	for b := r.first; b <= r.last; b++ {
		lo, hi := s.rows(b)
		bytes += s.head
		for p := range s.parts {
			if r.wantedParts[p] {
				bytes += s.partBytes(p, hi-lo)
			}
		}
	}
	return bytes, s.bandOffset(r.last) + s.bandBytes(r.last) - s.bandOffset(r.first)
}

// Read reads an initialisation. into is a sample of this reader whose memory is
// reused; nil allocates one. copy, if not nil, receives the bytes that are read, at
// their distance from the first one. ReadCopy reads such a copy.
//
// Memory: the sample, and a buffer of 8 MiB and one part of a band. After an error
// the values of the sample are invalid.
// Errors: 66 for an initialisation that is not in the store; 65 for a wrong
// checksum, with shard and byte; 74 if reading fails; those of copy; ctx.Err().
func (r *SelectionReader) Read(ctx context.Context, init ensemble.Init, into *Sample, copy io.WriterAt) (*Sample, error) {
	s := r.s
	i, err := s.initIndex(init)
	if err != nil {
		return nil, err
	}
	shard, at := s.locate(i)
	name := s.Shards[shard].Path
	var f filesystem.File
	direct := false
	if s.opt.Direct {
		f, direct, err = directio.OpenIn(s.root, filepath.FromSlash(name))
	} else {
		f, err = filesystem.OpenIn(s.root, filepath.FromSlash(name), os.O_RDONLY, 0)
	}
	if err != nil {
		return nil, s.unreadable(name, err)
	}
	defer f.Close()
	q := &query{SelectionReader: r, from: f, direct: direct, name: name, init: i, base: at, copy: copy}
	return q.read(ctx, init, into)
}

// ReadCopy is Read from a copy that Read made.
//
// Errors: as Read, with offsets in the copy.
func (r *SelectionReader) ReadCopy(ctx context.Context, init ensemble.Init, into *Sample, copy io.ReaderAt) (*Sample, error) {
	i, err := r.s.initIndex(init)
	if err != nil {
		return nil, err
	}
	q := &query{SelectionReader: r, from: copy, name: "a copy of an initialisation", init: i, base: -r.s.bandOffset(r.first)}
	return q.read(ctx, init, into)
}

// Allocate returns a sample without values: into, or a new one if that is nil.
func (r *SelectionReader) Allocate(init ensemble.Init, into *Sample) *Sample {
	if into == nil {
		into = &Sample{Forecast: &ensemble.Forecast{Init: init, Axes: r.axes, Members: r.members, Grid: r.grid}}
		into.Forecast.Values = bigmem.Make[float32](r.axes.Fields() * len(r.members) * r.grid.Size()) // Read sets all values
		for _, lead := range r.leads {
			into.Analyses = append(into.Analyses, ensemble.NewAnalysis(init.Valid(lead), r.variables, r.axes.Levels, r.grid))
		}
	}
	into.Forecast.Init = init
	for i, lead := range r.leads {
		into.Analyses[i].Valid = init.Valid(lead)
	}
	return into
}

// initIndex returns the position of an initialisation.
func (s *Store) initIndex(init ensemble.Init) (int, error) {
	i, found := slices.BinarySearchFunc(s.InitTimes, init, func(a time.Time, b ensemble.Init) int { return a.Compare(b.Time) })
	if !found {
		return 0, &exit.Error{Code: exit.NotYet, What: "an initialisation is not in the store", At: s.dir, Why: init.String(), Fix: "prepare a store that has it"}
	}
	return i, nil
}

// query is the state of reading one initialisation.
type query struct {
	*SelectionReader
	from io.ReaderAt // file or copy
	// direct reads are aligned to pages in offset, length and memory.
	direct bool
	name   string // of the file, for errors
	init   int    // position of the initialisation
	// base is the offset of the initialisation in from. A copy begins with the
	// first band that is read.
	base int64
	// copy receives the data that are read; nil for none.
	copy  io.WriterAt
	to    *Sample
	ahead bandRun
}

// bandRun holds bands that were read at once.
type bandRun struct {
	at   int64 // position in the file
	text []byte
	end  int    // first band behind it
	back func() // releases text; nil without bands
}

// readAhead reads band b, and as many after it as one read may cover, if all their parts are selected. A
// larger band, and one with other parts, is read by readBand.
func (q *query) readAhead(b int) error {
	if b < q.ahead.end {
		return nil
	}
	q.releaseAhead()
	s := q.s
	end := b
	for end <= q.last && s.bandOffset(end)+s.bandBytes(end)-s.bandOffset(b) <= maxRead {
		end++
	}
	if end == b || slices.Contains(q.wantedParts, false) {
		return nil
	}
	at := q.base + s.bandOffset(b)
	text, back, err := q.readBytes(at, s.bandOffset(end-1)+s.bandBytes(end-1)-s.bandOffset(b))
	if errors.Is(err, io.EOF) {
		return nil // readBand names the band at which the file ends
	}
	if err != nil {
		return exit.ReadError(filepath.Join(s.dir, q.name), err)
	}
	q.ahead = bandRun{at, text, end, back}
	return nil
}

// releaseAhead releases the bands that were read ahead.
func (q *query) releaseAhead() {
	if q.ahead.back != nil {
		q.ahead.back()
	}
	q.ahead = bandRun{}
}

// read reads all bands that overlap the window.
func (q *query) read(ctx context.Context, init ensemble.Init, into *Sample) (*Sample, error) {
	into = q.Allocate(init, into)
	q.to = into
	defer q.releaseAhead()
	for b := q.first; b <= q.last; b++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := q.readAhead(b); err != nil {
			return nil, err
		}
		if err := q.readBand(b); err != nil {
			return nil, err
		}
	}
	return into, nil
}

// destination returns the memory for a field of a part; nil if it is not selected.
func (q *query) destination(p part, v, l int) []float32 {
	switch {
	case q.l[l] < 0:
		return nil
	case p.member != analysis && q.v[v] >= 0:
		return q.to.Forecast.Field(q.t[p.lead], q.m[p.member], q.v[v], q.l[l])
	case p.member == analysis && q.av[v] >= 0:
		return q.to.Analyses[q.at[p.lead]].Field(q.av[v], q.l[l])
	}
	return nil
}

// maxRead is the target size of one read. A read covers complete parts of a band,
// so the last one may exceed it. Reads are made as equal as parts allow, because a
// short read takes almost as long as a long one.
const maxRead = 8 << 20

// readBand reads the selected parts of a band: the header, then runs of consecutive
// parts.
func (q *query) readBand(b int) error {
	r, s := q.SelectionReader, q.s
	at := s.bandOffset(b)
	lo, hi := s.rows(b)
	rows := hi - lo
	// The first run begins with the header.
	p := 0
	end := s.head
	h := (*bandHeader)(nil)
	from := int64(0)
	for {
		first := p
		last := p
		for last < len(s.parts) && r.wantedParts[last] {
			last++
		}
		if last > p {
			// The run of selected parts is divided into equal reads of about
			// maxRead bytes.
			left := s.partOffset(last-1, rows) + s.partBytes(last-1, rows) - from
			runs := (left + maxRead - 1) / maxRead
			for stop := from + left/runs; p < last && (p == first || s.partOffset(p, rows) < stop); p++ {
				end = s.partOffset(p, rows) + s.partBytes(p, rows)
			}
		}
		if end > from {
			text, back, err := q.readBytes(q.base+at+from, end-from)
			if errors.Is(err, io.EOF) {
				return s.damaged(q.name, fmt.Sprintf("it ends before the %d bytes at offset %d", end-from, q.base+at+from))
			}
			if err != nil {
				return exit.ReadError(filepath.Join(s.dir, q.name), err)
			}
			if h == nil {
				h, err = q.readHeader(text, q.base+at, b)
			}
			for k := first; k < p && err == nil; k++ {
				// The checksum covers a complete part, which is why parts are read
				// completely.
				in := text[s.partOffset(k, rows)-from:][:s.partBytes(k, rows)]
				if !s.opt.NoVerify && crc32.Checksum(in, castagnoli) != h.checksums[k] {
					err = s.damaged(q.name, fmt.Sprintf("the checksum of %d bytes at offset %d is wrong", len(in), q.base+at+s.partOffset(k, rows)))
					break
				}
				q.decodePart(k, in, h, lo, hi)
			}
			if err == nil && q.copy != nil {
				_, err = q.copy.WriteAt(text, at-s.bandOffset(r.first)+from)
			}
			back()
			if err != nil {
				return err
			}
		}
		for p < len(s.parts) && !r.wantedParts[p] {
			p++
		}
		if p == len(s.parts) {
			return nil
		}
		from = s.partOffset(p, rows)
		end = from
	}
}

// readBytes reads a range of the file into a buffer. back releases the buffer.
func (q *query) readBytes(at, n int64) (text []byte, back func(), err error) {
	if from := at - q.ahead.at; from >= 0 && from+n <= int64(len(q.ahead.text)) {
		return q.ahead.text[from:][:n], func() {}, nil
	}
	first, end := at, at+n
	if q.direct { // shards consist of complete pages
		first, end = at/directio.Align*directio.Align, align(end, directio.Align)
	}
	b, _ := q.s.buffer.Get().(*[]byte)
	if b == nil || int64(cap(*b)) < end-first {
		b = new([]byte)
		// Huge pages: a disk accepts requests of few pages, and with pages of 4 KiB
		// it runs at half its rate.
		*b = bigmem.Bytes(bigmem.Make[float32](int(max(align(end-first, bigmem.HugePage), minPagedBuffer) / 4)))
	}
	back = func() { q.s.buffer.Put(b) }
	if _, err = q.from.ReadAt((*b)[:end-first], first); err != nil {
		back()
		return nil, nil, err
	}
	return (*b)[at-first:][:n], back, nil
}

// minPagedBuffer is the size from which bigmem aligns to pages.
const minPagedBuffer = 4 << 20

// readHeader verifies and decodes the header of a band at offset at of its file.
func (q *query) readHeader(text []byte, at int64, b int) (*bandHeader, error) {
	s := q.s
	if crc32.Checksum(text[:s.head], castagnoli) != s.heads[q.init*s.bands+b] {
		return nil, s.damaged(q.name, fmt.Sprintf("the checksum of the band header at offset %d differs from that in the index", at))
	}
	h, err := s.decodeHeader(text, b, q.to.Forecast.Init.Unix())
	if err != nil {
		return nil, s.damaged(q.name, fmt.Sprintf("%v, at offset %d", err, at))
	}
	return h, nil
}

// decodePart decodes the selected fields of a part. The part holds rows lo to
// before hi of the grid.
func (q *query) decodePart(p int, in []byte, h *bandHeader, lo, hi int) {
	s, w := q.s, q.window
	nx := w.Cols[1] - w.Cols[0]
	part := s.parts[p]
	size := s.fieldBytes(hi - lo)
	for v := range part.vars {
		for l := range s.levels {
			to := q.destination(part, v, l)
			if to == nil {
				continue
			}
			n := v*s.levels + l
			// Shape of a part in the band: [variable][level][row][column].
			from := in[int64(n)*size:][:size]
			r := &h.records[part.first+n]
			if nx == s.nx { // complete rows are contiguous
				first, end := max(lo, w.Rows[0]), min(hi, w.Rows[1])
				s.Storage.decode(to[(first-w.Rows[0])*nx:(end-w.Rows[0])*nx], from[int64((first-lo)*nx)*s.elem:int64((end-lo)*nx)*s.elem], r)
				continue
			}
			for j := max(lo, w.Rows[0]); j < min(hi, w.Rows[1]); j++ {
				row := from[int64((j-lo)*s.nx+w.Cols[0])*s.elem:]
				s.Storage.decode(to[(j-w.Rows[0])*nx:][:nx], row[:int64(nx)*s.elem], r)
			}
		}
	}
}
