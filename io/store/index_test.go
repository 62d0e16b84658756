package store

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/io/table"
)

// rowsOf returns the index rows of a store.
func rowsOf(m *Meta, l *layout) []Row {
	var rows []Row
	for i := range l.inits {
		k, at := l.locate(i)
		for b := range l.bands {
			lo, hi := l.rows(b)
			rows = append(rows, Row{m.InitTimes[i].UTC(), b, lo, hi - lo, k, at + l.bandOffset(b), l.bandBytes(b), int64(i*100 + b), 3})
		}
	}
	return rows
}

// TestIndexCountsMissing: a row of the index has the number of missing values of its band, of forecasts and analyses.
func TestIndexCountsMissing(t *testing.T) {
	p, s := plan(Int16, 4)
	dir := t.TempDir()
	m := write(t, dir, p, sizes(p)).Meta
	l, err := m.layout()
	if err != nil {
		t.Fatal(err)
	}
	got, err := table.Read[Row](context.Background(), filepath.Join(dir, indexName))
	if err != nil {
		t.Fatal(err)
	}
	want := rowsOf(m, l)
	for i := range want {
		r := &want[i]
		r.Head, r.Missing = got[min(i, len(got)-1)].Head, 0
		for _, e := range slices.Concat(p.Forecasts.Entries, p.Analyses.Entries) {
			analysis := e.Member == ensemble.NoMember
			times := 0 // that the field is in the band
			for _, lead := range p.AnalysisLeads {
				if analysis && e.Valid() == ensemble.InitAt(r.Init).Valid(lead) {
					times++
				}
			}
			if !analysis && e.Init == ensemble.InitAt(r.Init) {
				times = 1
			}
			for _, x := range s.values(e.Key)[r.FirstRow*l.nx : (r.FirstRow+r.Rows)*l.nx] {
				if x != x {
					r.Missing += int64(times)
				}
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// FuzzIndex: a row that differs from the layout is rejected; only checksum and
// number of missing values are free.
func FuzzIndex(f *testing.F) {
	m, err := decodeMeta(described(f), "x")
	if err != nil {
		f.Fatal(err)
	}
	l, err := m.layout()
	if err != nil {
		f.Fatal(err)
	}
	s := &Store{Meta: m, layout: l}
	rows := rowsOf(m, l)
	for column := range uint8(9) {
		f.Add(uint16(column), column, int64(1))
	}
	f.Add(uint16(len(rows)), uint8(0), int64(0))
	f.Fuzz(func(t *testing.T, n uint16, column uint8, by int64) {
		changed := slices.Clone(rows)
		r := &changed[int(n)%len(rows)]
		free := false
		switch column % 10 {
		case 0:
			r.Init = r.Init.Add(time.Duration(by))
		case 1:
			r.Band += int(by)
		case 2:
			r.FirstRow += int(by)
		case 3:
			r.Rows += int(by)
		case 4:
			r.Shard += int(by)
		case 5:
			r.Offset += by
		case 6:
			r.Length += by
		case 7:
			r.Head = int64(uint32(by))
			free = true
		case 8:
			r.Missing = by
			free = true
		case 9:
			changed = changed[:int(n)%len(rows)]
			by = 1
		}
		heads, err := s.checkIndex(changed)
		if (err == nil) != (free || by == 0) {
			t.Fatalf("row %d, column %d changed by %d: %v", n, column, by, err)
		}
		for i, h := range heads {
			if h != uint32(changed[i].Head) {
				t.Errorf("head %d is %d, want %d", i, h, changed[i].Head)
			}
		}
	})
}
