package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// Ranks that share the rows of a grid at multiples of the coarsest cell read at most 1.1/N of a
// sample, and headers are at most a thirtieth of it.
func TestSlabsOfRows(t *testing.T) {
	for _, c := range []struct {
		ny, nx, members, levels int
		storage                 Storage
		ranks, cell             int
	}{
		{32, 64, 10, 2, Float32, 2, 4}, {32, 64, 10, 2, Float32, 4, 4}, {32, 64, 10, 2, Int16, 2, 4},
		{352, 704, 10, 2, Float32, 4, 16}, {352, 704, 50, 11, Float32, 8, 8}, {721, 1440, 50, 2, Int16, 4, 8}, {181, 360, 10, 2, Float32, 2, 4},
	} {
		grid := &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: c.ny, NX: c.nx}
		m := &Meta{Grid: grid, Storage: c.storage, Variables: make([]Variable, 5), Levels: make([]ensemble.Level, c.levels), Leads: make([]int64, 3), Members: make([]ensemble.Member, c.members),
			Analyses: Analyses{Variables: []string{"t", "gh"}, Leads: []int64{0}}, InitTimes: make([]time.Time, 4), BandRows: 1, ShardInits: 1}
		l, err := m.layout()
		if err != nil {
			t.Fatal(err)
		}
		m.BandRows = bandRows(grid, int64(l.fields)*l.fieldBytes(1), l.head)
		if l, err = m.layout(); err != nil {
			t.Fatal(err)
		}
		if l.bands > maxBands || l.head*30 > l.bandBytes(0) {
			t.Errorf("%+v: %d bands of %d bytes, headers of %d", c, l.bands, l.bandBytes(0), l.head)
		}
		cells := (c.ny + c.cell - 1) / c.cell
		for rank := range c.ranks {
			lo, hi := cells*rank/c.ranks*c.cell, min(cells*(rank+1)/c.ranks*c.cell, c.ny)
			bytes := int64(0)
			for b := lo / l.bandRows; b <= (hi-1)/l.bandRows; b++ {
				bytes += l.bandBytes(b)
			}
			whole := float64(l.fields) * float64(l.fieldBytes(c.ny))
			if share := float64(bytes) / whole; share > 1.1*float64(hi-lo)/float64(c.ny) {
				t.Errorf("%+v: rank %d reads %.4f of the fields for %d of %d rows, in bands of %d", c, rank, share, hi-lo, c.ny, l.bandRows)
			}
		}
	}
}

// The last band has the rows that remain, also a single one, and more bytes in an initialisation than a file may have are refused.
func TestNumberOfBands(t *testing.T) {
	m := &Meta{Storage: Float32, Variables: make([]Variable, 5), Levels: make([]ensemble.Level, 2), Leads: make([]int64, 3), Members: make([]ensemble.Member, 10), InitTimes: make([]time.Time, 4), BandRows: 4, ShardInits: 1}
	for ny, bands := range map[int]int{1: 1, 4: 1, 5: 2, 8: 2, 9: 3} {
		m.Grid = &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: ny, NX: 8}
		l, err := m.layout()
		if err != nil {
			t.Fatal(err)
		}
		if l.bands != bands {
			t.Errorf("%d rows: %d bands, want %d", ny, l.bands, bands)
		}
	}
	m.Grid = &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: maxCount, NX: maxCount}
	if _, err := m.layout(); err == nil || !strings.Contains(err.Error(), "300 fields of 16777216×16777216 points") {
		t.Errorf("%v, want an error of the limits", err)
	}
	one := *m // 3·2^48 values are 3·2^50 bytes
	one.Members, one.Variables, one.Levels, one.Leads = make([]ensemble.Member, 1), make([]Variable, 3), make([]ensemble.Level, 1), make([]int64, 1)
	if _, err := one.layout(); err == nil || !strings.Contains(err.Error(), "3 fields of 16777216×16777216 points") {
		t.Errorf("%v, want an error of the limits", err)
	}
	m.Grid = &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: 8, NX: 8}
	m.Analyses = Analyses{Variables: make([]string, 1<<12), Leads: make([]int64, 1<<12)}
	if _, err := m.layout(); err == nil || !strings.Contains(err.Error(), "fields of 8×8 points") {
		t.Errorf("many analyses: %v, want an error of the limits", err)
	}
	// A field of 2^48 bytes: half of the limit, 2^62, are 2^14 initialisations.
	m.Analyses, m.Members, m.Variables, m.Levels, m.Leads = Analyses{}, make([]ensemble.Member, 1), make([]Variable, 1), make([]ensemble.Level, 1), make([]int64, 1)
	m.Grid, m.BandRows = &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: 1 << 24, NX: 1 << 22}, 1<<24
	m.InitTimes = make([]time.Time, 1<<13)
	if _, err := m.layout(); err != nil {
		t.Error(err)
	}
	m.InitTimes = make([]time.Time, 1<<15)
	if _, err := m.layout(); err == nil || !strings.Contains(err.Error(), "32768 initialisations of ") {
		t.Errorf("many initialisations: %v, want an error of the limits", err)
	}
}

// A size of bands makes at most 128 of them.
func TestMostBands(t *testing.T) {
	for ny, rows := range map[int]int{1: 1, 128: 1, 129: 2, 256: 2, 257: 3} {
		p, _ := plan(Float32, 1)
		p.Grid = &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: ny, NX: 1, Lat: make([]float64, ny), Lon: make([]float64, 1)}
		w, err := newWriter("", p, Options{BandSize: 1})
		if err != nil {
			t.Fatal(err)
		}
		if w.bandRows != rows {
			t.Errorf("%d rows: bands of %d, want %d", ny, w.bandRows, rows)
		}
	}
}

// Sizes are rounded up to a multiple.
func TestAlign(t *testing.T) {
	for n, want := range map[int64]int64{0: 0, 1: 64, 63: 64, 64: 64, 65: 128, 66: 128} {
		if got := align(n, 64); got != want {
			t.Errorf("%d becomes %d, want %d", n, got, want)
		}
	}
}

// A writer needs as much memory as its error states, and no byte less; then it holds one field.
func TestLeastMemory(t *testing.T) {
	m := &Meta{Grid: &ensemble.Grid{Kind: ensemble.RegularLatLon, NY: 9, NX: 8}, Storage: Float32, Variables: make([]Variable, 1), Levels: make([]ensemble.Level, 1), Leads: make([]int64, 1),
		Members: make([]ensemble.Member, 2), InitTimes: make([]time.Time, 4), BandRows: 4, ShardInits: 1}
	l, err := m.layout()
	if err != nil {
		t.Fatal(err)
	}
	needs := func(memory int64) (needed int64) {
		w := &writer{layout: l, opt: Options{Workers: 1, Memory: memory}}
		err := w.divideMemory()
		if err == nil {
			if w.workers != 1 || w.window != 1 {
				t.Errorf("%d workers with %d fields", w.workers, w.window)
			}
			return 0
		}
		if at := strings.Index(err.Error(), "one worker needs "); at < 0 {
			t.Fatal(err)
		} else if _, err := fmt.Sscanf(err.Error()[at:], "one worker needs %d", &needed); err != nil {
			t.Fatal(err)
		}
		return needed
	}
	n := needs(1)
	// A decoded field; records of 2 fields in 3 bands; two headers of 64 + 2·8 + 2·48 bytes, in lines; 4 rows of a field; a buffer.
	if want := int64(4*9*8 + 2*3*48 + 2*192 + 4*4*8 + 1<<20); n != want {
		t.Errorf("%d bytes needed, want %d", n, want)
	}
	if needs(n-1) != n || needs(n) != 0 {
		t.Errorf("%d bytes needed, with one less %d, with them %d", n, needs(n-1), needs(n))
	}
}

// The statistics of a single value are this value.
func TestStatisticsOfOneValue(t *testing.T) {
	r, err := fieldStatistics([]float32{5})
	if err != nil || r.min != 5 || r.max != 5 || r.mean != 5 || r.sd != 0 || r.offset != 0 || r.scale != 1 { // offset and scale of values that are stored as they are
		t.Errorf("%+v, %v", r, err)
	}
}

// A store is complete if each of its files has its size.
func TestFilesComplete(t *testing.T) {
	m := &Meta{Shards: []manifest.File{{Path: "shards/0", Size: 3}}, Index: manifest.File{Path: "index", Size: 1}}
	for _, c := range []struct {
		files map[string]string
		want  bool
	}{
		{map[string]string{"shards/0": "abc", "index": "i"}, true},
		{map[string]string{"shards/0": "ab", "index": "i"}, false},
		{map[string]string{"shards/0": "abc", "index": ""}, false},
		{map[string]string{"shards/0": "abc"}, false},
		{map[string]string{"index": "i"}, false},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		if got := filesComplete(dir, m); got != c.want {
			t.Errorf("%q: complete: %t, want %t", c.files, got, c.want)
		}
	}
}
