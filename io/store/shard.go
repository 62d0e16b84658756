package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"crypto/sha256"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/atomicfile"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Row is a row of the index: one band of one start.
type Row struct {
	Init     time.Time `json:"init"`
	Band     int       `json:"band"`
	FirstRow int       `json:"first_row"` // of the grid
	Rows     int       `json:"rows"`
	Shard    int       `json:"shard"`
	Offset   int64     `json:"offset"`      // in the shard
	Length   int64     `json:"length"`      // bytes, a multiple of 4096
	Head     int64     `json:"head_crc32c"` // of the band's head, which has the checksums of its parts
	Missing  int64     `json:"missing"`     // values
}

// shard writes one shard after the other.
type shard struct {
	*writer
	heads  []head // of the bands of the present start
	seen   []bool // fields of it that came
	values []byte // a field's rows of a band, as stored
	piece  []byte // for reading back
	text   []byte // of a head
}

func newShard(w *writer) *shard {
	lo, hi := w.rows(0)
	s := &shard{writer: w, heads: make([]head, w.bands), seen: make([]bool, w.fields), values: make([]byte, w.fieldBytes(hi-lo)), piece: make([]byte, buffer)}
	for b := range s.heads {
		s.heads[b] = head{sums: make([]uint32, len(w.parts)), records: make([]record, w.fields)}
	}
	return s
}

// make writes shard k and its journal.
func (s *shard) make(ctx context.Context, k int) error {
	path := filepath.Join(s.dir, shardName(k))
	e := &entry{Statistics: s.meta.statistics()}
	sum := sha256.New()
	err := atomicfile.Replace(path, func(tmp string) error {
		f, err := os.OpenFile(tmp, os.O_RDWR, 0)
		if err != nil {
			return exit.Create(path, err)
		}
		err = s.fill(ctx, f, k, e, sum)
		if cerr := f.Close(); err == nil {
			err = exit.Create(path, cerr)
		}
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return exit.Create(path, err)
	}
	reached("shard renamed")
	e.Shard = manifest.File{Path: shardName(k), Size: s.shardSize(k), SHA256: hex.EncodeToString(sum.Sum(nil))}
	if err := s.writeJSON(journalName(k), e); err != nil {
		return err
	}
	reached("journal written")
	return nil
}

// fill writes the starts of a shard.
func (s *shard) fill(ctx context.Context, f *os.File, k int, e *entry, sum hash.Hash) error {
	reached("shard opened")
	if err := f.Truncate(s.shardSize(k)); err != nil {
		return exit.Create(f.Name(), err)
	}
	lo, hi := s.inShard(k)
	for i := lo; i < hi; i++ {
		_, at := s.place(i)
		if err := s.startFields(ctx, f, at, i); err != nil {
			return err
		}
		reached("fields written")
		if err := s.seal(f, at, k, i, e, sum); err != nil {
			return err
		}
		reached("start sealed")
	}
	return nil
}

// startFields writes the fields of start i, which lies at a place of the shard.
func (s *shard) startFields(ctx context.Context, f *os.File, at int64, i int) error {
	clear(s.seen)
	init := ensemble.InitAt(s.meta.Starts[i])
	for b := range s.heads {
		lo, hi := s.rows(b)
		h := &s.heads[b]
		h.band, h.row, h.rows, h.init = b, lo, hi-lo, init.Unix()
	}
	axes := s.meta.Axes()
	err := s.read(ctx, s.plan.Forecasts.Reader, s.forecasts[init], func(fd *ensemble.Field) error {
		t, v, l, ok := axes.Find(fd.Key)
		m := slices.Index(s.meta.Members, fd.Key.Member)
		if !ok || m < 0 {
			return s.bad(fd, "the store has no place for a field", "")
		}
		return s.put(f, at, t*len(s.meta.Members)+m, v, l, fd)
	})
	if err != nil {
		return err
	}
	for t, lead := range s.meta.AnalysisLeads() {
		err := s.read(ctx, s.plan.Analyses.Reader, s.analyses[init.Valid(lead)], func(fd *ensemble.Field) error {
			v, l := slices.Index(s.meta.Analyses.Variables, fd.Key.Variable), ensemble.FindLevel(s.meta.Levels, fd.Key.Variable, fd.Key.Level)
			if v < 0 || l < 0 {
				return s.bad(fd, "the store has no place for a field", "")
			}
			return s.put(f, at, s.firstAnalysis()+t, v, l, fd)
		})
		if err != nil {
			return err
		}
	}
	if n := slices.Index(s.seen, false); n >= 0 {
		return &exit.Error{Code: exit.BadData, What: "a field of a start is missing", At: init.String(),
			Why: fmt.Sprintf("field %d of %d did not come", n, s.fields), Fix: "give the files that hold it, or leave the start out"}
	}
	return nil
}

// read reads fields, no more at once than the memory allows.
func (s *shard) read(ctx context.Context, r Reader, entries []ensemble.Entry, visit func(*ensemble.Field) error) error {
	for some := range slices.Chunk(entries, s.window) {
		if err := r.Read(ctx, some, func(_ int, f *ensemble.Field) error { return visit(f) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *shard) bad(fd *ensemble.Field, what, why string) error {
	return &exit.Error{Code: exit.BadData, What: what, At: fd.Key.String(), Why: why, Fix: "correct the input, or leave the start out"}
}

// put writes a field into all bands.
func (s *shard) put(f *os.File, at int64, p, v, l int, fd *ensemble.Field) error {
	if len(fd.Values) != s.ny*s.nx {
		return s.bad(fd, "a field has another number of points", fmt.Sprintf("%d, want %d", len(fd.Values), s.ny*s.nx))
	}
	in := v*s.levels + l // the part
	n := s.parts[p].first + in
	if s.seen[n] {
		return s.bad(fd, "a field comes twice", "")
	}
	s.seen[n] = true
	for b := range s.heads {
		lo, hi := s.rows(b)
		values := fd.Values[lo*s.nx : hi*s.nx]
		r, err := describe(values)
		to := s.values[:s.fieldBytes(hi-lo)]
		if err == nil {
			err = s.meta.Storage.encode(to, values, &r)
		}
		if errors.Is(err, errRange) {
			return s.bad(fd, errRange.What, fmt.Sprintf("rows %d to %d hold values from %g to %g, stored as %s", lo, hi-1, r.min, r.max, s.meta.Storage))
		}
		if err != nil {
			return err
		}
		s.heads[b].records[n] = r
		if _, err := f.WriteAt(to, at+s.bandAt(b)+s.partAt(p, hi-lo)+int64(in)*s.fieldBytes(hi-lo)); err != nil {
			return exit.Create(f.Name(), err)
		}
	}
	return nil
}

// seal writes the heads of a start's bands, of what was written, and adds them to the
// journal. The bytes that it sums are those that it reads back.
func (s *shard) seal(f *os.File, at int64, k, i int, e *entry, sum hash.Hash) error {
	for b := range s.heads {
		h := &s.heads[b]
		from := at + s.bandAt(b)
		row := Row{Init: s.meta.Starts[i].UTC(), Band: b, FirstRow: h.row, Rows: h.rows, Shard: k, Offset: from, Length: s.bandBytes(b)}
		for p, part := range s.parts {
			c := crc32.New(castagnoli)
			if err := s.again(f, from+s.partAt(p, h.rows), s.partBytes(p, h.rows), c); err != nil {
				return err
			}
			h.sums[p] = c.Sum32()
			first := s.statisticOf(part, len(s.meta.Leads))
			for n := range part.fields {
				r := &h.records[part.first+n]
				row.Missing += int64(r.missing)
				e.Statistics[first+n].add(r.statistic(h.rows * s.nx))
			}
		}
		s.text = h.append(s.text[:0], s.head)
		row.Head = int64(crc32.Checksum(s.text, castagnoli))
		if _, err := f.WriteAt(s.text, from); err != nil {
			return exit.Create(f.Name(), err)
		}
		e.Bands = append(e.Bands, row)
		if err := s.again(f, from, row.Length, sum); err != nil {
			return err
		}
	}
	return nil
}

// again reads n bytes back into a sum.
func (s *shard) again(f *os.File, at, n int64, sum io.Writer) error {
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{io.NewSectionReader(f, at, n)}, s.piece); err != nil {
		return exit.Read(f.Name(), err)
	}
	return nil
}
