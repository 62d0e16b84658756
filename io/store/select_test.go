package store

import (
	"context"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// pieces is a copy of an initialisation in memory, which counts its bytes.
type pieces struct {
	text  []byte
	bytes int64
}

func (p *pieces) WriteAt(b []byte, at int64) (int, error) {
	p.bytes += int64(len(b))
	return copy(p.text[at:], b), nil
}

func (p *pieces) ReadAt(b []byte, at int64) (int, error) {
	if n := copy(b, p.text[at:]); n < len(b) {
		return n, io.EOF
	}
	return len(b), nil
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func sameSample(a, b *Sample) bool {
	same := a.Forecast.Init == b.Forecast.Init && equalBits(a.Forecast.Values, b.Forecast.Values) && len(a.Analyses) == len(b.Analyses)
	for i := range a.Analyses {
		same = same && a.Analyses[i].Valid == b.Analyses[i].Valid && equalBits(a.Analyses[i].Values, b.Analyses[i].Values)
	}
	return same
}

// TestSelectionReader: a sample in reused memory, and one read from a copy, equal those of
// Store.Read. A copy has the bytes that were read and no others.
func TestSelectionReader(t *testing.T) {
	for _, storage := range Storages {
		p, _ := plan(storage, 4)
		dir := filepath.Join(t.TempDir(), "store")
		write(t, dir, p, sizes(p))
		s, direct := open(t, dir, OpenOptions{}), open(t, dir, OpenOptions{Direct: true})
		for _, sel := range []Selection{
			{},
			{Window: ensemble.Window{Rows: [2]int{5, 11}, Cols: [2]int{1, 4}}, Leads: p.Axes.Leads[1:], AnalysisLeads: []ensemble.Lead{0}},
			{Window: ensemble.Window{Rows: [2]int{4, 8}, Cols: [2]int{0, 5}}, Members: []ensemble.Member{4}, AnalysisLeads: []ensemble.Lead{}},
			{Window: ensemble.Window{Rows: [2]int{11, 11}, Cols: [2]int{0, 5}}},
		} {
			r, err := s.Select(sel)
			if err != nil {
				t.Fatal(err)
			}
			bytes, span := r.Bytes()
			var room *Sample
			for _, init := range []ensemble.Init{p.Inits[3], p.Inits[0], p.Inits[2]} {
				f, a, err := s.Read(context.Background(), init, sel)
				if err != nil {
					t.Fatal(err)
				}
				want := &Sample{f, a}
				made := &pieces{text: make([]byte, span)}
				if room, err = r.Read(context.Background(), init, room, made); err != nil || !sameSample(room, want) {
					t.Errorf("%s %+v: used again: %v", storage, sel, err)
				}
				if made.bytes < bytes || made.bytes > bytes+int64(len(s.parts)*s.bands)*partAlign {
					t.Errorf("%s %+v: %d bytes were read, %d are said to be", storage, sel, made.bytes, bytes)
				}
				if f, a, err := direct.Read(context.Background(), init, sel); err != nil || !sameSample(&Sample{f, a}, want) {
					t.Errorf("%s %+v: past the page cache: %v", storage, sel, err)
				}
				if got, err := r.ReadCopy(context.Background(), init, nil, made); err != nil || !sameSample(got, want) {
					t.Errorf("%s %+v: of a copy: %v", storage, sel, err)
				}
				if len(made.text) == 0 || sel.Leads != nil || sel.Members != nil {
					continue
				}
				made.text[s.head+1]++ // of the first part
				if _, err := r.ReadCopy(context.Background(), init, nil, made); exit.CodeOf(err) != exit.BadData {
					t.Errorf("%s: of a damaged copy: %v", storage, err)
				}
			}
			var n int64 = 4 * int64(len(room.Forecast.Values))
			for _, a := range room.Analyses {
				n += 4 * int64(len(a.Values))
			}
			if n != 4*r.Values() {
				t.Errorf("%d values, want %d", r.Values(), n/4)
			}
		}
	}
}

// TestShortShard: a shard that is truncated while in use is damaged.
func TestShortShard(t *testing.T) {
	p, _ := plan(Float32, 2)
	dir := filepath.Join(t.TempDir(), "store")
	write(t, dir, p, sizes(p))
	s := open(t, dir, OpenOptions{})
	if err := os.Truncate(filepath.Join(dir, "shards", "00000.bin"), 5000); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Read(context.Background(), p.Inits[1], Selection{}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("%v, want exit 65", err)
	}
}
