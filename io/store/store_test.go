package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// synthetic is a source whose fields are a function of their keys. It counts the
// bytes that are requested at once.
type synthetic struct {
	grid *ensemble.Grid

	mu          sync.Mutex
	now, most   int64 // bytes of requested fields, by all callers together
	replacement func(k ensemble.Key, values []float32)
}

// Read returns the fields, and counts them as in use until it returns.
func (s *synthetic) Read(ctx context.Context, entries []ensemble.Entry, visit func(int, *ensemble.Field) error) error {
	bytes := 4 * int64(len(entries)) * int64(s.grid.Size())
	s.mu.Lock()
	s.now += bytes
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now -= bytes
		s.mu.Unlock()
	}()
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(i, &ensemble.Field{Key: e.Key, Unit: e.Unit, Grid: s.grid, Values: s.values(e.Key)}); err != nil {
			return err
		}
	}
	return nil
}

// values returns waves about the mean of a variable; every ninth field has a hole,
// and one in thirty is completely missing.
func (s *synthetic) values(k ensemble.Key) []float32 {
	h := fnv.New64a()
	fmt.Fprint(h, k)
	id := h.Sum64()
	mean, scale := 280.0, 15.0
	if k.Variable == "gh" {
		mean, scale = 5500, 300
	}
	out := make([]float32, s.grid.Size())
	for p := range out {
		out[p] = float32(mean + scale*math.Sin(float64(id%1000)+0.37*float64(p)))
		if id%9 == 0 && p%7 == 3 || id%30 == 1 {
			out[p] = float32(math.NaN())
		}
	}
	if s.replacement != nil {
		s.replacement(k, out)
	}
	return out
}

const hour = ensemble.Lead(time.Hour)

// plan is a small store: 7 initialisations of 2 leads × 3 members × 2 variables × 3
// levels on 11×5 points, with analyses of one variable at both leads. All axes
// except the leads have different lengths.
func plan(storage Storage, starts int) (Plan, *synthetic) {
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 5, NY: 11, Source: ensemble.SourceOrder{ScanningMode: -1}}
	for j := range g.NY {
		g.Lat = append(g.Lat, 50-float64(j))
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, float64(i)*1.5)
	}
	s := &synthetic{grid: g}
	p := Plan{
		Axes: ensemble.Axes{Variables: []string{"t", "gh"}, Levels: []ensemble.Level{ensemble.PressureLevel(850), ensemble.PressureLevel(500), {Kind: ensemble.HeightAboveSoil, Value: 2}},
			Leads: []ensemble.Lead{0, 36 * hour}},
		Members: []ensemble.Member{0, 1, 4}, Grid: g, Storage: storage, AnalysisVariables: []string{"gh"}, AnalysisLeads: []ensemble.Lead{36 * hour, 0},
		Inputs: []manifest.File{{Path: "a", Size: 1, SHA256: "00"}}, Version: "test",
	}
	p.Forecasts.Reader, p.Analyses.Reader = s, s
	unit := map[string]string{"t": "K", "gh": "m"}
	for i := range starts {
		init := ensemble.InitAt(time.Date(2001, 2, 3, 12*i, 0, 0, 0, time.UTC))
		p.Inits = append(p.Inits, init)
		for _, l := range p.Axes.Levels {
			for _, v := range p.Axes.Variables {
				for t, lead := range p.Axes.Leads {
					for _, m := range p.Members {
						p.Forecasts.Entries = append(p.Forecasts.Entries, ensemble.Entry{File: fmt.Sprint(t), Kind: &ensemble.Kind{Unit: unit[v]},
							Key: ensemble.Key{Variable: v, Level: l, Member: m, Init: init, Lead: lead}})
					}
				}
			}
		}
	}
	have := map[ensemble.Valid]bool{}
	for _, init := range p.Inits {
		for _, lead := range p.AnalysisLeads {
			if v := init.Valid(lead); !have[v] {
				have[v] = true
				for _, l := range p.Axes.Levels {
					p.Analyses.Entries = append(p.Analyses.Entries, ensemble.Entry{Kind: &ensemble.Kind{Unit: "m"},
						Key: ensemble.Key{Variable: "gh", Level: l, Member: ensemble.NoMember, Init: ensemble.Init(v)}})
				}
			}
		}
	}
	return p, s
}

// sizes divides the small store into bands of 4 rows (the last of 3) and shards of
// 3 initialisations (the last of 1).
func sizes(p Plan) Options {
	rowBytes := int64(2*3*2*3+2*3) * 5 * p.Storage.bytes()
	o := Options{BandSize: 4 * rowBytes}
	w, err := newWriter("", p, o)
	if err != nil {
		panic(err)
	}
	o.ShardSize = 3 * w.initBytes
	return o
}

func write(t *testing.T, dir string, p Plan, o Options) *Result {
	t.Helper()
	r, err := Write(context.Background(), dir, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// digestsOf are the digests of a store that is written at once.
func digestsOf(t *testing.T, p Plan, o Options) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, p, o)
	return digests(t, dir)
}

func open(t *testing.T, dir string, o OpenOptions) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// digests returns the SHA-256 of all files of a directory, by name.
func digests(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all = append(all, fmt.Sprintf("%s %x", name, sha256.Sum256(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// tolerance is the largest error of a storage type for a value of a band with
// values from lo to hi: for Int16 half a step, and the rounding to float32.
func tolerance(s Storage, x float32, lo, hi float64) float64 {
	switch s {
	case BFloat16:
		return math.Abs(float64(x)) / 256
	case Int16:
		return (hi-lo)/int16Steps/2*(1+1e-9) + math.Abs(float64(x))*0x1p-23
	}
	return 0
}

// TestRoundTrip: every value is restored within the stated error, and missing
// values too, for all types, complete initialisations and parts of them.
func TestRoundTrip(t *testing.T) {
	for _, storage := range Storages {
		p, src := plan(storage, 7)
		dir := filepath.Join(t.TempDir(), "store")
		r := write(t, dir, p, sizes(p))
		if r.Meta.BandRows != 4 || r.Meta.ShardInits != 3 || len(r.Meta.Shards) != 3 {
			t.Fatalf("%d rows, %d starts, %d shards; want 4, 3, 3", r.Meta.BandRows, r.Meta.ShardInits, len(r.Meta.Shards))
		}
		for _, o := range []OpenOptions{{}, {NoVerify: true}} {
			s := open(t, dir, o)
			if err := s.Verify(context.Background()); err != nil {
				t.Error(err)
			}
			for _, sel := range []Selection{
				{},
				{Window: ensemble.Window{Rows: [2]int{3, 9}, Cols: [2]int{1, 4}}},
				{Window: ensemble.Window{Rows: [2]int{8, 11}, Cols: [2]int{0, 5}}, Levels: p.Axes.Levels[1:2]},
				{Members: []ensemble.Member{4, 0}, Leads: p.Axes.Leads[1:], Variables: []string{"gh"}, AnalysisLeads: []ensemble.Lead{0}},
				{Members: []ensemble.Member{}, Levels: []ensemble.Level{p.Axes.Levels[2], p.Axes.Levels[0]}},
				{AnalysisLeads: []ensemble.Lead{}},
			} {
				for _, init := range p.Inits {
					f, an, err := s.Read(context.Background(), init, sel)
					if err != nil {
						t.Fatal(err)
					}
					check := func(k ensemble.Key, got []float32) {
						t.Helper()
						all := src.values(k)
						want := ensemble.CropField(all, p.Grid, sel.Window)
						lo, hi := make([]float64, 3), make([]float64, 3) // of the bands
						for b := range lo {
							lo[b], hi[b] = math.Inf(1), math.Inf(-1)
							for _, x := range all[b*4*5 : min((b+1)*4*5, len(all))] {
								if x == x {
									lo[b], hi[b] = min(lo[b], float64(x)), max(hi[b], float64(x))
								}
							}
						}
						first, nx := sel.Window.Rows[0], 5
						if sel.Window.Cols[1] > 0 {
							nx = sel.Window.Cols[1] - sel.Window.Cols[0]
						}
						if len(got) != len(want) {
							t.Fatalf("%s: %d values, want %d", k, len(got), len(want))
						}
						for i, x := range want {
							if x != x != (got[i] != got[i]) || math.Abs(float64(got[i])-float64(x)) > tolerance(storage, x, lo[(first+i/nx)/4], hi[(first+i/nx)/4]) {
								t.Fatalf("%s %s value %d is %v, want %v", storage, k, i, got[i], x)
							}
						}
					}
					for ti, lead := range f.Axes.Leads {
						for mi, m := range f.Members {
							for vi, v := range f.Axes.Variables {
								for li, l := range f.Axes.Levels {
									check(ensemble.Key{Variable: v, Level: l, Member: m, Init: init, Lead: lead}, f.Field(ti, mi, vi, li))
								}
							}
						}
					}
					for _, a := range an {
						for li, l := range a.Levels {
							check(ensemble.Key{Variable: "gh", Level: l, Member: ensemble.NoMember, Init: ensemble.Init(a.Valid)}, a.Field(0, li))
						}
					}
					if n := len(defaultTo(sel.AnalysisLeads, p.AnalysisLeads)); len(an) != n {
						t.Errorf("%d analyses, want %d", len(an), n)
					}
				}
			}
		}
	}
}

// TestFloat32Bits: float32 keeps all bits, also of NaN, infinities and subnormal
// numbers.
func TestFloat32Bits(t *testing.T) {
	p, src := plan(Float32, 1)
	bits := []uint32{0x80000000, 1, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x7fc00001, 0xffa00005, 0x7f800001}
	src.replacement = func(_ ensemble.Key, v []float32) {
		for i, b := range bits {
			v[i] = math.Float32frombits(b)
		}
	}
	dir := filepath.Join(t.TempDir(), "store")
	write(t, dir, p, Options{})
	f, _, err := open(t, dir, OpenOptions{}).Read(context.Background(), p.Inits[0], Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bits {
		if got := math.Float32bits(f.Field(1, 2, 1, 0)[i]); got != b {
			t.Errorf("%#x came back as %#x", b, got)
		}
	}
}

// TestSameBytes: workers, memory and interruptions do not change a byte.
func TestSameBytes(t *testing.T) {
	p, _ := plan(Int16, 7)
	first := filepath.Join(t.TempDir(), "store")
	o := sizes(p)
	o.Workers = 1
	write(t, first, p, o)
	want := digests(t, first)
	if strings.Contains(want, journalDir) || strings.Contains(want, "run.lock") || strings.Contains(want, "partial") {
		t.Errorf("left behind:\n%s", want)
	}
	for _, workers := range []int{2, 5} {
		dir := filepath.Join(t.TempDir(), "store")
		o.Workers, o.Memory = workers, int64(workers)*(3<<20)
		// Fields arrive in another order than in their files.
		shuffled := p
		shuffled.Forecasts.Entries = slices.Clone(p.Forecasts.Entries)
		slices.Reverse(shuffled.Forecasts.Entries)
		tries := 0
		for ; tries < 50; tries++ {
			ctx, cancel := context.WithCancel(context.Background())
			o.Progress = func(done, all int) {
				if done > tries {
					cancel()
				}
			}
			r, err := Write(ctx, dir, shuffled, o)
			cancel()
			if err == nil {
				if tries > 0 && r.Reused == 0 {
					t.Error("nothing of the interrupted run was kept")
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if got := digests(t, dir); got != want {
			t.Errorf("%d workers, %d interruptions:\n%s\nwant\n%s", workers, tries, got, want)
		}
	}
	if r := write(t, first, p, o); !r.Complete {
		t.Error("a store that is complete was written again")
	}
}

// TestMemory: the bytes requested at once stay below the bound, and a bound that is
// too small is rejected.
func TestMemory(t *testing.T) {
	p, src := plan(Float32, 7)
	o := sizes(p)
	need := func() int64 {
		_, err := newWriter("", p, Options{Memory: 1, BandSize: o.BandSize, ShardSize: o.ShardSize})
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.NoDevice {
			t.Fatal(err)
		}
		var n int64
		if _, err := fmt.Sscanf(e.Why, "1 bytes are allowed, one worker needs %d", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}()
	field := 4 * int64(p.Grid.Size())
	for _, c := range []struct{ memory, fields int64 }{{need, 1}, {2 * need, 2}, {need + 9*field, 10}} {
		src.most = 0
		o.Memory, o.Workers = c.memory, 8
		write(t, filepath.Join(t.TempDir(), "store"), p, o)
		if src.most > c.fields*field || src.most == 0 {
			t.Errorf("memory %d: %d bytes of fields at once, want at most %d", c.memory, src.most, c.fields*field)
		}
	}
}

// TestRefusals: directories and inputs that are rejected.
func TestRefusals(t *testing.T) {
	base, _ := plan(Float32, 4)
	write1 := func(t *testing.T, dir string, change func(*Plan, *synthetic, *Options)) error {
		p, s := plan(Float32, 4)
		o := Options{}
		change(&p, s, &o)
		_, err := Write(context.Background(), dir, p, o)
		return err
	}
	for _, c := range []struct {
		name   string
		before func(dir string) error
		change func(*Plan, *synthetic, *Options)
		code   exit.Code
		want   string
	}{
		{"foreign file", func(dir string) error { return os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644) }, nil, exit.CannotWrite, "thesis.tex"},
		{"another store", func(dir string) error {
			_, err := Write(context.Background(), dir, base, Options{})
			return err
		}, func(p *Plan, _ *synthetic, _ *Options) { p.Storage = Int16 }, exit.CannotWrite, "another store"},
		{"other inputs", func(dir string) error {
			_, err := Write(context.Background(), dir, base, Options{})
			return err
		}, func(p *Plan, _ *synthetic, _ *Options) { p.Inputs[0].SHA256 = "01" }, exit.CannotWrite, "another store"},
		{"a field is missing", nil, func(p *Plan, _ *synthetic, _ *Options) { p.Forecasts.Entries = p.Forecasts.Entries[1:] }, exit.BadData, "missing"},
		{"an analysis is missing", nil, func(p *Plan, _ *synthetic, _ *Options) { p.Analyses.Entries = p.Analyses.Entries[:5] }, exit.BadData, "missing"},
		{"a field comes twice", nil, func(p *Plan, _ *synthetic, _ *Options) {
			p.Forecasts.Entries = append(p.Forecasts.Entries, p.Forecasts.Entries[7])
		}, exit.BadData, "twice"},
		{"infinite", nil, func(_ *Plan, s *synthetic, _ *Options) {
			s.replacement = func(k ensemble.Key, v []float32) { v[17] = float32(math.Inf(-1)) }
		}, exit.BadData, "infinite"},
		{"beyond bf16", nil, func(p *Plan, s *synthetic, _ *Options) {
			p.Storage = BFloat16
			s.replacement = func(k ensemble.Key, v []float32) { v[0] = math.MaxFloat32 }
		}, exit.BadData, "too large"},
		{"no members", nil, func(p *Plan, _ *synthetic, _ *Options) { p.Members = nil }, exit.Usage, "0 members"},
		{"starts twice", nil, func(p *Plan, _ *synthetic, _ *Options) { p.Inits[1] = p.Inits[0] }, exit.Usage, "ascend"},
		{"storage", nil, func(p *Plan, _ *synthetic, _ *Options) { p.Storage = "f8" }, exit.Usage, "f8"},
	} {
		dir := t.TempDir()
		if c.before != nil {
			if err := c.before(dir); err != nil {
				t.Fatal(err)
			}
		}
		if c.change == nil {
			c.change = func(*Plan, *synthetic, *Options) {}
		}
		before := digests(t, dir)
		err := write1(t, dir, c.change)
		if exit.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit %d and %q", c.name, err, c.code, c.want)
		}
		if after := digests(t, dir); c.before != nil && before != after {
			t.Errorf("%s: the folder changed from\n%s\nto\n%s", c.name, before, after)
		}
	}
}

// TestOverwrite: another store is replaced if Overwrite is set, and the result is
// that of a new directory.
func TestOverwrite(t *testing.T) {
	a, _ := plan(Float32, 7)
	b, _ := plan(Int16, 3)
	dir, fresh := t.TempDir(), filepath.Join(t.TempDir(), "new")
	write(t, dir, a, sizes(a))
	o := sizes(b)
	o.Overwrite = true
	write(t, dir, b, o)
	write(t, fresh, b, o)
	if got, want := digests(t, dir), digests(t, fresh); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDamage: one changed byte anywhere in the read data is detected and reported.
func TestDamage(t *testing.T) {
	p, _ := plan(BFloat16, 4)
	dir := t.TempDir()
	r := write(t, dir, p, sizes(p))
	l, err := r.Meta.layout()
	if err != nil {
		t.Fatal(err)
	}
	flip := func(name string, at int64) func() {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(text)
		changed[at] ^= 4
		if err := os.WriteFile(path, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		return func() { os.WriteFile(path, text, 0o644) }
	}
	whole := func() error {
		s, err := Open(context.Background(), dir, OpenOptions{})
		if err != nil {
			return err
		}
		defer s.Close()
		for _, init := range p.Inits {
			if _, _, err := s.Read(context.Background(), init, Selection{}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := whole(); err != nil {
		t.Fatal(err)
	}
	band := l.bandOffset(1)
	for _, c := range []struct {
		name string
		at   int64
		want string
	}{
		{"shards/00000.bin", 3, "head"}, {"shards/00000.bin", headFixed + 2, "head"}, {"shards/00001.bin", l.head - 1, "head"},
		{"shards/00000.bin", l.initBytes + band + l.partOffset(2, 4) + 5, fmt.Sprint(l.initBytes + band + l.partOffset(2, 4))},
		{"shards/00000.bin", band + l.partOffset(len(l.parts)-1, 4), "checksum"},
		{indexName, 40, indexName},
	} {
		back := flip(c.name, c.at)
		if err := whole(); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.name) {
			t.Errorf("byte %d of %s: %v, want exit 65 and %q", c.at, c.name, err, c.want)
		}
		back()
	}
	if err := os.Truncate(filepath.Join(dir, "shards/00001.bin"), 100); err != nil {
		t.Fatal(err)
	}
	if err := whole(); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a shard cut short: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "shards/00001.bin")); err != nil {
		t.Fatal(err)
	}
	if err := whole(); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a shard removed: %v", err)
	}
}

// TestNotFinished: a directory without store.json is not a store.
func TestNotFinished(t *testing.T) {
	if _, err := Open(context.Background(), filepath.Join(t.TempDir(), "none"), OpenOptions{}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no folder: %v", err)
	}
	dir := t.TempDir()
	p, _ := plan(Float32, 2)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Write(ctx, dir, p, Options{}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), dir, OpenOptions{}); exit.CodeOf(err) != exit.NotYet || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("begun: %v", err)
	}
}

// TestReadTogether: several goroutines read one store.
func TestReadTogether(t *testing.T) {
	p, src := plan(Float32, 7)
	dir := t.TempDir()
	write(t, dir, p, sizes(p))
	s := open(t, dir, OpenOptions{})
	var g sync.WaitGroup
	for n := range 4 {
		g.Go(func() {
			for i := range 40 {
				init := p.Inits[(i*5+n)%len(p.Inits)]
				f, _, err := s.Read(context.Background(), init, Selection{})
				if err != nil {
					t.Error(err)
					return
				}
				want := src.values(ensemble.Key{Variable: "gh", Level: p.Axes.Levels[1], Member: 1, Init: init})
				if got := f.Field(0, 1, 1, 1); !slices.EqualFunc(got, want, func(a, b float32) bool { return a == b || a != a && b != b }) {
					t.Errorf("%s: %v, want %v", init, got, want)
				}
			}
		})
	}
	g.Wait()
}
