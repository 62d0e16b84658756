package samples

import (
	"bytes"
	"context"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/io/store"
)

// noiseArchive is an archive of random numbers about 280, which cost no time.
type noiseArchive struct {
	grid  *ensemble.Grid
	table []float32
}

func (n noiseArchive) Read(_ context.Context, entries []ensemble.Entry, visit func(i int, f *ensemble.Field) error) error {
	for i, e := range entries {
		at := (7919*int(e.Member) + 104729*int(e.Lead/ensemble.Lead(time.Hour)) + 31*int(e.Init.Unix()/3600)) % (len(n.table) - n.grid.Size())
		if err := visit(i, &ensemble.Field{Key: e.Key, Unit: e.Unit, Grid: n.grid, Values: n.table[at:][:n.grid.Size()]}); err != nil {
			return err
		}
	}
	return nil
}

// writeNoise writes a store of random numbers: samples of 3 leads × 7 members × 2 levels × 2 variables on a
// grid.
func writeNoise(t *testing.T, dir string, starts, ny, nx int) {
	t.Helper()
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: nx, NY: ny, Source: ensemble.SourceOrder{ScanningMode: -1}}
	for j := range ny {
		g.Lat = append(g.Lat, 60-float64(j)*0.1)
	}
	for i := range nx {
		g.Lon = append(g.Lon, float64(i)*0.1)
	}
	from := noiseArchive{g, make([]float32, 2*g.Size()+1)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range from.table {
		from.table[i] = 280 + 10*r.Float32()
	}
	p := store.Plan{Axes: ensemble.Axes{Variables: []string{"t", "gh"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500)}},
		Members: []ensemble.Member{0, 1, 2, 3, 4, 5, 6}, Grid: g, Storage: store.Float32, Inputs: []manifest.File{{Path: "a", Size: 1, SHA256: "00"}}, Version: "test"}
	p.Forecasts.Reader = from
	for h := range 3 {
		p.Axes.Leads = append(p.Axes.Leads, ensemble.Lead(24*time.Duration(h)*time.Hour))
	}
	for i := range starts {
		init := ensemble.InitAt(time.Date(2001, 1, 1+i, 0, 0, 0, 0, time.UTC))
		p.Inits = append(p.Inits, init)
		for _, lead := range p.Axes.Leads {
			for _, m := range p.Members {
				for v, unit := range map[string]string{"t": "K", "gh": "m"} {
					for _, l := range p.Axes.Levels {
						p.Forecasts.Entries = append(p.Forecasts.Entries, ensemble.Entry{File: "a", Kind: &ensemble.Kind{Unit: unit}, Key: ensemble.Key{Variable: v, Level: l, Member: m, Init: init, Lead: lead}})
					}
				}
			}
		}
	}
	if _, err := store.Write(context.Background(), dir, p, store.Options{}); err != nil {
		t.Fatal(err)
	}
}

func TestStoreBench(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	writeNoise(t, dir, 20, 24, 30)
	r, err := StoreBench(context.Background(), StoreBenchOptions{Dir: dir, Inits: 15, Prefetch: 3})
	if err != nil {
		t.Fatal(err)
	}
	values := int64(15 * 3 * 7 * 2 * 2 * 24 * 30)
	if r.Inits != 15 || r.Prefetch != 3 || r.Bytes < 4*values || r.Bytes > 5*values || r.DiskBytesPerS <= 0 || r.Ratio <= 0 || r.HotBytesPerS <= 0 || r.Predicted <= 0 || r.PeakMiB <= 0 {
		t.Errorf("%+v, of %d values", r, values)
	}
	var b bytes.Buffer
	if err := r.Sections().WriteText(&b); err != nil || !strings.Contains(b.String(), "15 samples") || !strings.Contains(b.String(), "of the disk's rate") {
		t.Errorf("%v\n%s", err, &b)
	}
	if err := runtest.Overwrite(filepath.Join(dir, "shards", "00000.bin"), make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if _, err := StoreBench(context.Background(), StoreBenchOptions{Dir: dir}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a damaged store: %v", err)
	}
}
