package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// wide is a source of large fields. Like fio.Input it may hold all fields of a
// request at once, and does.
type wide struct {
	grid *ensemble.Grid

	mu   sync.Mutex
	live uint64 // maximum of heap bytes in use during Read
}

// Read makes all fields before it passes the first to visit.
func (w *wide) Read(ctx context.Context, entries []ensemble.Entry, visit func(int, *ensemble.Field) error) error {
	fields := make([][]float32, len(entries))
	w.mu.Lock() // No fields are made while the heap is measured: new ones count whether they are in use or not.
	for i := range fields {
		fields[i] = make([]float32, w.grid.Size())
		for p := range fields[i] {
			fields[i][p] = float32(i + p%1000)
		}
	}
	w.live = max(w.live, inUse())
	w.mu.Unlock()
	for i, e := range entries {
		if err := visit(i, &ensemble.Field{Key: e.Key, Grid: w.grid, Values: fields[i]}); err != nil {
			return err
		}
	}
	runtime.KeepAlive(fields)
	return nil
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// large is a source of initialisations with 48 fields of 256×512 points each, 24
// MiB in float32.
func large(starts int, storage Storage) (Plan, *wide) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 512, NY: 256, Lat: make([]float64, 256), Lon: make([]float64, 512)}
	w := &wide{grid: g}
	p := Plan{Axes: ensemble.Axes{Variables: []string{"t", "u", "v"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)}, Leads: []ensemble.Lead{0, 24 * hour}},
		Members: []ensemble.Member{0, 1, 2, 3}, Grid: g, Storage: storage, Forecasts: FieldSource{Reader: w}}
	for i := range starts {
		init := ensemble.InitAt(time.Unix(int64(i)*86400, 0))
		p.Inits = append(p.Inits, init)
		for _, v := range p.Axes.Variables {
			for _, l := range p.Axes.Levels {
				for _, t := range p.Axes.Leads {
					for _, m := range p.Members {
						p.Forecasts.Entries = append(p.Forecasts.Entries, ensemble.Entry{Kind: new(ensemble.Kind), Key: ensemble.Key{Variable: v, Level: l, Member: m, Init: init, Lead: t}})
					}
				}
			}
		}
	}
	return p, w
}

// TestHeap: two workers write initialisations of 24 MiB within 8 MiB, and use more
// memory if it is allowed.
func TestHeap(t *testing.T) {
	for _, memory := range []int64{8 << 20, 20 << 20} {
		p, w := large(4, Float32)
		before := inUse()
		for now := inUse(); now < before; now = inUse() { // memory of earlier tests is freed in several collections
			before = now
		}
		if _, err := Write(context.Background(), t.TempDir(), p, Options{Memory: memory, Workers: 2, ShardSize: 1}); err != nil {
			t.Fatal(err)
		}
		if used := int64(w.live - before); used > memory || used < memory/2 {
			t.Errorf("%d bytes were in use, %d are allowed", used, memory)
		}
	}
}

// TestSlabReadsItsBands: reading a slab of latitudes needs no byte of bands that it
// does not overlap.
func TestSlabReadsItsBands(t *testing.T) {
	p, _ := plan(Int16, 4)
	dir := t.TempDir()
	r := write(t, dir, p, sizes(p))
	l, err := r.Meta.layout()
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, OpenOptions{})
	f, err := os.OpenFile(filepath.Join(dir, shardName(0)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, b := range []int{0, 2} { // rows 0 to 3, and 8 to 10
		if _, err := f.WriteAt(make([]byte, l.bandBytes(b)), l.initBytes+l.bandOffset(b)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		rows [2]int
		ok   bool
	}{{[2]int{4, 8}, true}, {[2]int{5, 6}, true}, {[2]int{3, 8}, false}, {[2]int{4, 9}, false}} {
		_, _, err := s.Read(context.Background(), p.Inits[1], Selection{Window: ensemble.Window{Rows: c.rows, Cols: [2]int{0, 5}}})
		if (err == nil) != c.ok {
			t.Errorf("rows %v: %v", c.rows, err)
		}
	}
}

// BenchmarkRead reads initialisations of 24 MiB from the page cache, or from disk
// if they do not fit: completely, and a quarter of the rows, with and without
// checksums.
func BenchmarkRead(b *testing.B) {
	for _, storage := range Storages {
		p, _ := large(16, storage)
		dir := b.TempDir()
		r, err := Write(context.Background(), dir, p, Options{})
		if err != nil {
			b.Fatal(err)
		}
		for _, verify := range []bool{true, false} {
			for _, rows := range [][2]int{{0, 256}, {64, 128}} {
				b.Run(fmt.Sprintf("%s,verify=%v,rows=%d", storage, verify, rows[1]-rows[0]), func(b *testing.B) {
					s, err := Open(context.Background(), dir, OpenOptions{NoVerify: !verify})
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					b.SetBytes(r.Meta.Bytes() / int64(len(p.Inits)) * int64(rows[1]-rows[0]) / 256)
					i := 0
					for b.Loop() {
						if _, _, err := s.Read(context.Background(), p.Inits[i%len(p.Inits)], Selection{Window: ensemble.Window{Rows: rows, Cols: [2]int{0, 512}}}); err != nil {
							b.Fatal(err)
						}
						i++
					}
				})
			}
		}
	}
}
