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
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Row is a row of the index: one band of one initialisation.
//
// Source: docs/formats/store.md.
type Row struct {
	// Init is the initialisation, UTC.
	Init time.Time `json:"init"`
	// Band is the number of the band, from north to south.
	Band int `json:"band"`
	// FirstRow and Rows are the grid rows of the band.
	FirstRow int `json:"first_row"`
	Rows     int `json:"rows"`
	// Shard is the number of the shard, Offset the position of the band in it.
	Shard  int   `json:"shard"`
	Offset int64 `json:"offset"` // in the shard
	// Length in bytes, a multiple of 4096.
	Length int64 `json:"length"`
	// Head is the CRC-32C of the band header, which holds the checksums of the
	// parts.
	Head int64 `json:"head_crc32c"`
	// Missing is the number of missing values.
	Missing int64 `json:"missing"`
}

// shardWriter writes shards, one after the other.
type shardWriter struct {
	*writer
	// headers holds the band headers of the current initialisation.
	headers []bandHeader
	// written marks the fields of it that were written.
	written []bool
	// values holds the encoded rows of a field in a band.
	values []byte
	// readBuffer is the buffer for reading back.
	readBuffer []byte
	// text is an encoded band header.
	text []byte
}

// newShardWriter allocates the buffers of a worker.
func newShardWriter(w *writer) *shardWriter {
	lo, hi := w.rows(0)
	s := &shardWriter{writer: w, headers: make([]bandHeader, w.bands), written: make([]bool, w.fields), values: make([]byte, w.fieldBytes(hi-lo)), readBuffer: make([]byte, buffer)}
	for b := range s.headers {
		s.headers[b] = bandHeader{checksums: make([]uint32, len(w.parts)), records: make([]fieldRecord, w.fields)}
	}
	return s
}

// writeShard writes shard k and its journal entry.
func (s *shardWriter) writeShard(ctx context.Context, k int) error {
	path := filepath.Join(s.dir, shardName(k))
	e := &journalEntry{Statistics: s.meta.statistics()}
	sum := sha256.New()
	// The shard appears under its name only when it is complete, and the journal
	// entry only after the shard.
	err := atomicfile.Replace(path, func(tmp string) error {
		f, err := filesystem.OpenFile(tmp, os.O_RDWR, 0)
		if err != nil {
			return exit.CreateError(path, err)
		}
		err = s.writeInits(ctx, f, k, e, sum)
		if cerr := f.Close(); err == nil {
			err = exit.CreateError(path, cerr)
		}
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return exit.CreateError(path, err)
	}
	testHook("shard renamed")
	e.Shard = manifest.File{Path: shardName(k), Size: s.shardSize(k), SHA256: hex.EncodeToString(sum.Sum(nil))}
	if err := s.writeSealed(journalName(k), e, &e.Checksum); err != nil {
		return err
	}
	testHook("journal written")
	return nil
}

// writeInits writes the initialisations of a shard.
func (s *shardWriter) writeInits(ctx context.Context, f filesystem.File, k int, e *journalEntry, sum hash.Hash) error {
	testHook("shard opened")
	// Fields arrive in the order of the input files, so they are written at their
	// offsets into a file of the final size.
	if err := f.Truncate(s.shardSize(k)); err != nil {
		return exit.CreateError(f.Name(), err)
	}
	lo, hi := s.shardInits(k)
	for i := lo; i < hi; i++ {
		_, at := s.locate(i)
		if err := s.writeFields(ctx, f, at, i); err != nil {
			return err
		}
		testHook("fields written")
		if err := s.writeHeaders(f, at, k, i, e, sum); err != nil {
			return err
		}
		testHook("start sealed")
	}
	return nil
}

// writeFields writes the fields of initialisation i, which lies at offset at of the
// shard.
func (s *shardWriter) writeFields(ctx context.Context, f filesystem.File, at int64, i int) error {
	clear(s.written)
	init := ensemble.InitAt(s.meta.InitTimes[i])
	for b := range s.headers {
		lo, hi := s.rows(b)
		h := &s.headers[b]
		h.band, h.row, h.rows, h.init = b, lo, hi-lo, init.Unix()
	}
	axes := s.meta.Axes()
	err := s.readFields(ctx, s.plan.Forecasts.Reader, s.forecasts[init], func(fd *ensemble.Field) error {
		t, v, l, ok := axes.Find(fd.Key)
		m := slices.Index(s.meta.Members, fd.Key.Member)
		if !ok || m < 0 {
			return s.fieldError(fd, "a field is not part of the store", "")
		}
		return s.writeField(f, at, t*len(s.meta.Members)+m, v, l, fd)
	})
	if err != nil {
		return err
	}
	for t, lead := range s.meta.AnalysisLeads() {
		err := s.readFields(ctx, s.plan.Analyses.Reader, s.analyses[init.Valid(lead)], func(fd *ensemble.Field) error {
			v, l := slices.Index(s.meta.Analyses.Variables, fd.Key.Variable), ensemble.FindLevel(s.meta.Levels, fd.Key.Variable, fd.Key.Level)
			if v < 0 || l < 0 {
				return s.fieldError(fd, "a field is not part of the store", "")
			}
			return s.writeField(f, at, s.firstAnalysis()+t, v, l, fd)
		})
		if err != nil {
			return err
		}
	}
	// A store is complete by definition: training does not handle missing fields.
	if n := slices.Index(s.written, false); n >= 0 {
		return &exit.Error{Code: exit.BadData, What: "a field of an initialisation is missing", At: init.String(),
			Why: fmt.Sprintf("field %d of %d was not read", n, s.fields), Fix: "add the files that hold it, or exclude the initialisation"}
	}
	return nil
}

// readFields reads fields in groups that fit the memory of a worker.
func (s *shardWriter) readFields(ctx context.Context, r Reader, entries []ensemble.Entry, visit func(*ensemble.Field) error) error {
	for some := range slices.Chunk(entries, s.window) {
		if err := r.Read(ctx, some, func(_ int, f *ensemble.Field) error { return visit(f) }); err != nil {
			return err
		}
	}
	return nil
}

// fieldError returns an error about a field.
func (s *shardWriter) fieldError(fd *ensemble.Field, what, why string) error {
	return &exit.Error{Code: exit.BadData, What: what, At: fd.Key.String(), Why: why, Fix: "correct the input, or exclude the initialisation"}
}

// writeField writes a field to all bands.
func (s *shardWriter) writeField(f filesystem.File, at int64, p, v, l int, fd *ensemble.Field) error {
	if len(fd.Values) != s.ny*s.nx {
		return s.fieldError(fd, "a field has a wrong number of points", fmt.Sprintf("%d, want %d", len(fd.Values), s.ny*s.nx))
	}
	in := v*s.levels + l // position in the part
	n := s.parts[p].first + in
	if s.written[n] {
		return s.fieldError(fd, "a field was read twice", "")
	}
	s.written[n] = true
	for b := range s.headers {
		lo, hi := s.rows(b)
		values := fd.Values[lo*s.nx : hi*s.nx]
		r, err := fieldStatistics(values)
		to := s.values[:s.fieldBytes(hi-lo)]
		if err == nil {
			err = s.meta.Storage.encode(to, values, &r)
		}
		if errors.Is(err, errRange) {
			return s.fieldError(fd, errRange.What, fmt.Sprintf("rows %d to %d hold values from %g to %g, stored as %s", lo, hi-1, r.min, r.max, s.meta.Storage))
		}
		if err != nil {
			return err
		}
		s.headers[b].records[n] = r
		if _, err := f.WriteAt(to, at+s.bandOffset(b)+s.partOffset(p, hi-lo)+int64(in)*s.fieldBytes(hi-lo)); err != nil {
			return exit.CreateError(f.Name(), err)
		}
	}
	return nil
}

// writeHeaders writes the band headers of an initialisation and adds them to the
// journal. Checksums are computed from data that are read back, so that they cover
// what the disk stores.
func (s *shardWriter) writeHeaders(f filesystem.File, at int64, k, i int, e *journalEntry, sum hash.Hash) error {
	for b := range s.headers {
		h := &s.headers[b]
		from := at + s.bandOffset(b)
		row := Row{Init: s.meta.InitTimes[i].UTC(), Band: b, FirstRow: h.row, Rows: h.rows, Shard: k, Offset: from, Length: s.bandBytes(b)}
		for p, part := range s.parts {
			c := crc32.New(castagnoli)
			if err := s.readBack(f, from+s.partOffset(p, h.rows), s.partBytes(p, h.rows), c); err != nil {
				return err
			}
			h.checksums[p] = c.Sum32()
			first := s.statisticIndex(part, len(s.meta.Leads))
			for n := range part.fields {
				r := &h.records[part.first+n]
				row.Missing += int64(r.missing)
				e.Statistics[first+n].merge(r.statistic(h.rows * s.nx))
			}
		}
		s.text = h.append(s.text[:0], s.head)
		row.Head = int64(crc32.Checksum(s.text, castagnoli))
		if _, err := f.WriteAt(s.text, from); err != nil {
			return exit.CreateError(f.Name(), err)
		}
		e.Bands = append(e.Bands, row)
		if err := s.readBack(f, from, row.Length, sum); err != nil {
			return err
		}
	}
	return nil
}

// readBack copies n bytes at offset at to sum.
func (s *shardWriter) readBack(f filesystem.File, at, n int64, sum io.Writer) error {
	if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{io.NewSectionReader(f, at, n)}, s.readBuffer); err != nil {
		return exit.ReadError(f.Name(), err)
	}
	return nil
}
