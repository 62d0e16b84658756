package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

// tiny is a store of initialisations with one field each, which is written in few operations: a shard for each.
func tiny(storage Storage, inits int) (Plan, Options) {
	p, _ := plan(storage, inits)
	p.Axes.Variables, p.Axes.Levels, p.Axes.Leads, p.Members = p.Axes.Variables[:1], p.Axes.Levels[:1], p.Axes.Leads[:1], p.Members[:1]
	p.AnalysisVariables, p.AnalysisLeads, p.Analyses = nil, nil, FieldSource{}
	p.Forecasts.Entries = slices.DeleteFunc(p.Forecasts.Entries, func(e ensemble.Entry) bool {
		return e.Variable != p.Axes.Variables[0] || e.Level != p.Axes.Levels[0] || e.Lead != p.Axes.Leads[0] || e.Member != p.Members[0]
	})
	return p, Options{Workers: 1, ShardSize: 1}
}

// ofLease reports an operation on the lease. One that cannot be removed is overwritten, so that it blocks nobody; but its second file, in the
// folder of a replacement, is a copy here, as failing operations have no hard links, and stays until its process ends.
func ofLease(op *faultfs.Operation) bool { return strings.Contains(op.Path, "run.lock") }

// needed reports an operation that has to succeed for a store to be durable, or for the lease to be in the folder of its replacement.
func needed(op *faultfs.Operation) bool {
	kinds := []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.SyncDir, faultfs.Close, faultfs.Rename, faultfs.Mkdir}
	return slices.Contains(kinds, op.Kind) && (!ofLease(op) || strings.Contains(op.Path, replacementName))
}

// readBack reports that a writer reads its own shard or index.
func readBack(op *faultfs.Operation) bool {
	of := strings.Contains(op.Path, shardDir+"/") || filepath.Base(op.Path) == indexName
	return of && (op.Kind == faultfs.Open || op.Kind == faultfs.Read)
}

// TestEachOperation: whatever operation on files fails while a store is written, over an unfinished one or another one, the store is complete
// or it is an error with exit 74 (of the lease 73), and the same command completes it. Operations without which a store is not durable are
// never ignored, nor those that read what was written.
func TestEachOperation(t *testing.T) {
	p, o := tiny(Int16, 2)
	o.Overwrite = true
	p.InputChecksums = []InputChecksum{{Path: "a", SHA256: "00"}}
	want := digestsOf(t, p, o)
	for name, before := range map[string]func(dir string){
		"unfinished": func(dir string) {
			ctx, cancel := context.WithCancel(context.Background())
			begun := o
			begun.Progress = func(int, int) { cancel() }
			if _, err := Write(ctx, dir, p, begun); err == nil {
				t.Fatal("not interrupted")
			}
		},
		"another": func(dir string) { // which a killed writer has begun to replace
			q, o := tiny(BFloat16, 1)
			write(t, dir, q, o)
			for _, name := range []string{"shards/00001.bin", "shards/.00001.bin.partial-1"} {
				path := filepath.Join(filepath.Dir(dir), ".store"+replacementName, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		for round := range faultfs.Rounds(faultfs.Fault{Err: unix.EIO}, 1) {
			dir := filepath.Join(t.TempDir(), "store")
			before(dir)
			var r *Result
			hit, err := round.Run(t, func() (err error) { r, err = Write(context.Background(), dir, p, o); return err })
			if hit == nil {
				break
			}
			op := fmt.Sprintf("%s: %s of %s", name, hit.Kind, hit.Path)
			if code := exit.CodeOf(err); err != nil && code != exit.IO && (code != exit.CannotWrite || !ofLease(hit)) {
				t.Errorf("%s fails: %v", op, err)
			}
			if err == nil && (needed(hit) || name != "unfinished" && readBack(hit)) {
				t.Errorf("%s fails, and it is no error", op)
			}
			if name == "another" && ofLease(hit) {
				if err := os.RemoveAll(filepath.Join(dir, "run.lock")); err != nil {
					t.Fatal(err)
				}
			}
			if err == nil {
				if got := without(digests(t, dir), "run.lock"); got != want || len(r.Outputs) == 0 {
					t.Errorf("%s fails, and it is no error, but the store has\n%s\nwant\n%s", op, got, want)
				}
			}
			if _, err := Write(context.Background(), dir, p, o); err != nil {
				t.Errorf("%s fails: then %v", op, err)
			}
			if got := digests(t, dir); got != want {
				t.Errorf("%s fails: then\n%s\nwant\n%s", op, got, want)
			}
		}
	}
}

// TestPlanRefusals: plans and options that are refused before anything is written.
func TestPlanRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *Plan, o *Options)
		want   string
	}{
		"workers":                         {func(_ *Plan, o *Options) { o.Workers = -1 }, "negative"},
		"memory":                          {func(_ *Plan, o *Options) { o.Memory = -1 }, "negative"},
		"shards":                          {func(_ *Plan, o *Options) { o.ShardSize = -1 }, "negative"},
		"bands":                           {func(_ *Plan, o *Options) { o.BandSize = -1 }, "negative"},
		"a lead":                          {func(p *Plan, _ *Options) { p.Axes.Leads[1] = ensemble.Lead(90 * time.Millisecond) }, "not an integer number of seconds"},
		"a lead of analyses":              {func(p *Plan, _ *Options) { p.AnalysisLeads[0] = ensemble.Lead(1500 * time.Millisecond) }, "not an integer number of seconds"},
		"an initialisation":               {func(p *Plan, _ *Options) { p.Inits[0] = ensemble.InitAt(time.Unix(0, 5)) }, "not an integer number of seconds"},
		"analyses without leads":          {func(p *Plan, _ *Options) { p.AnalysisLeads = nil }, "at 0 leads"},
		"analyses of another variable":    {func(p *Plan, _ *Options) { p.AnalysisVariables = []string{"u"} }, "which the forecasts lack"},
		"a variable twice":                {func(p *Plan, _ *Options) { p.Axes.Variables[1] = "t" }, "variable t is listed twice"},
		"a member twice":                  {func(p *Plan, _ *Options) { p.Members[1] = 0 }, "member 0 is listed twice"},
		"a lead twice":                    {func(p *Plan, _ *Options) { p.Axes.Leads[1] = 0 }, "lead 0 is listed twice"},
		"an analysed variable twice":      {func(p *Plan, _ *Options) { p.AnalysisVariables = []string{"gh", "gh"} }, "analysed variable gh is listed twice"},
		"a lead of analyses twice":        {func(p *Plan, _ *Options) { p.AnalysisLeads[1] = p.AnalysisLeads[0] }, "lead of an analysis 129600 is listed twice"},
		"no grid":                         {func(p *Plan, _ *Options) { p.Grid = nil }, "no grid"},
		"a grid without rows":             {func(p *Plan, _ *Options) { p.Grid = grid(p, 0, 5) }, "a grid of 0 rows of 5"},
		"a grid without columns":          {func(p *Plan, _ *Options) { p.Grid = grid(p, 11, 0) }, "a grid of 11 rows of 0"},
		"a grid with too many rows":       {func(p *Plan, _ *Options) { p.Grid = grid(p, maxCount+1, 5) }, "rows of 5"},
		"a grid with too many columns":    {func(p *Plan, _ *Options) { p.Grid = grid(p, 11, maxCount+1) }, "a grid of 11 rows of 16777217"},
		"a latitude too few":              {func(p *Plan, _ *Options) { p.Grid = grid(p, 12, 5) }, "11 latitudes and 5 longitudes, want 12 and 5"},
		"a longitude too few":             {func(p *Plan, _ *Options) { p.Grid = grid(p, 11, 6) }, "11 latitudes and 5 longitudes, want 11 and 6"},
		"rows and columns of a projected": {func(p *Plan, _ *Options) { p.Grid = grid(p, 11, 5); p.Grid.Kind = ensemble.Projected }, "11 latitudes and 5 longitudes, want 55 and 55"},
		"x of another length": {func(p *Plan, _ *Options) {
			p.Grid = grid(p, 11, 5)
			p.Grid.X, p.Grid.Y = make([]float64, 4), make([]float64, 11)
		}, "4 x and 11 y coordinates, want 5 and 11"},
		"y of another length": {func(p *Plan, _ *Options) {
			p.Grid = grid(p, 11, 5)
			p.Grid.X, p.Grid.Y = make([]float64, 5), make([]float64, 10)
		}, "5 x and 10 y coordinates, want 5 and 11"},
		"x without y": {func(p *Plan, _ *Options) { p.Grid = grid(p, 11, 5); p.Grid.X = make([]float64, 5) }, "5 x and 0 y coordinates"},
	} {
		p, _ := plan(Float32, 2)
		o := Options{}
		c.change(&p, &o)
		dir := filepath.Join(t.TempDir(), "store")
		if _, err := Write(context.Background(), dir, p, o); exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want exit 64 and %q", name, err, c.want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the folder: %v", name, err)
		}
	}
	for name, kind := range map[string]ensemble.GridKind{"regular": ensemble.RegularLatLon, "Gaussian": ensemble.RegularGaussian} {
		p, _ := plan(Float32, 2)
		g := grid(&p, 11, 5)
		g.Kind, g.X, g.Y = kind, make([]float64, 5), make([]float64, 11)
		if err := checkGrid(g); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkGrid(&ensemble.Grid{Kind: ensemble.Points, NX: 1, NY: 1, Lat: []float64{1}, Lon: []float64{2}}); err != nil {
		t.Error(err)
	}
}

// grid is the grid of a plan with other numbers of rows and columns, and its coordinates.
func grid(p *Plan, ny, nx int) *ensemble.Grid {
	g := *p.Grid
	g.NY, g.NX = ny, nx
	return &g
}

// TestIdentity: what determines the values of a store determines its identity; version, warnings and places of the inputs do not.
func TestIdentity(t *testing.T) {
	identity := func(change func(p *Plan, o *Options)) string {
		p, _ := plan(Float32, 2)
		o := Options{}
		change(&p, &o)
		w, err := newWriter("", p, o)
		if err != nil {
			t.Fatal(err)
		}
		return w.meta.Identity
	}
	want := identity(func(*Plan, *Options) {})
	for name, change := range map[string]func(p *Plan, o *Options){
		"version": func(p *Plan, _ *Options) { p.Version = "other" }, "warnings": func(p *Plan, _ *Options) { p.Warnings = []string{"w"} }, "a moved input": func(p *Plan, _ *Options) { p.Inputs[0].Path = "b" },
		"workers": func(_ *Plan, o *Options) { o.Workers = 7 },
	} {
		if identity(change) != want {
			t.Errorf("%s changes the identity", name)
		}
	}
	for name, change := range map[string]func(p *Plan, o *Options){
		"an input": func(p *Plan, _ *Options) { p.Inputs[0].SHA256 = "01" }, "another input": func(p *Plan, _ *Options) { p.Inputs = append(p.Inputs, manifest.File{Path: "b", SHA256: "02"}) },
		"storage": func(p *Plan, _ *Options) { p.Storage = Int16 }, "interpolation": func(p *Plan, _ *Options) { p.Interpolation = "bilinear" }, "a member": func(p *Plan, _ *Options) { p.Members = p.Members[:2] },
		"a lead": func(p *Plan, _ *Options) { p.Axes.Leads[1]++; p.Axes.Leads[1] += ensemble.Lead(time.Second) - 1 }, "the unit": func(p *Plan, _ *Options) { p.Forecasts.Entries[len(p.Forecasts.Entries)-1].Kind.Unit = "degC" },
		"sizes of shards": func(_ *Plan, o *Options) { o.ShardSize = 1 }, "an initialisation": func(p *Plan, _ *Options) { p.Inits = p.Inits[:1] },
	} {
		if got := identity(change); got == want || len(got) != 64 {
			t.Errorf("%s: the identity is %s, of the original %s", name, got, want)
		}
	}
}

// TestDefaults: options that are 0 have the values that the documentation states.
func TestDefaults(t *testing.T) {
	p, _ := plan(Float32, 2)
	w, err := newWriter("", p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if o := w.opt; o.Memory != 1<<30 || o.ShardSize != 256<<20 || o.Workers != runtime.GOMAXPROCS(0) {
		t.Errorf("%+v", o)
	}
}

// TestSize: the size that is stated before is that of the shards.
func TestSize(t *testing.T) {
	p, _ := plan(Int16, 7)
	p.Forecasts.Entries, p.Analyses.Entries = nil, nil
	stated, err := Size(p)
	if err != nil {
		t.Fatal(err)
	}
	p, _ = plan(Int16, 7)
	dir := t.TempDir()
	r := write(t, dir, p, Options{})
	var bytes int64
	for _, s := range r.Meta.Shards {
		st, err := os.Stat(filepath.Join(dir, s.Path))
		if err != nil {
			t.Fatal(err)
		}
		bytes += st.Size()
	}
	if stated != bytes || r.Meta.Bytes() != bytes {
		t.Errorf("%d bytes were stated, %d are recorded, of %d", stated, r.Meta.Bytes(), bytes)
	}
	p.Members = nil
	if _, err := Size(p); exit.CodeOf(err) != exit.Usage {
		t.Errorf("an invalid plan: %v", err)
	}
}

// ordered notes the positions of the requested entries.
type ordered struct {
	*synthetic
	mu  sync.Mutex
	all [][]ensemble.Entry
}

// Read notes a request.
func (r *ordered) Read(ctx context.Context, entries []ensemble.Entry, visit func(int, *ensemble.Field) error) error {
	r.mu.Lock()
	r.all = append(r.all, slices.Clone(entries))
	r.mu.Unlock()
	return r.synthetic.Read(ctx, entries, visit)
}

// TestFilesAreReadInOrder: the fields of an initialisation are requested file by file, in their order in it, whatever that of the catalogue is.
func TestFilesAreReadInOrder(t *testing.T) {
	p, s := plan(Float32, 3)
	for i := range p.Forecasts.Entries {
		e := &p.Forecasts.Entries[i]
		e.File, e.Message = fmt.Sprintf("file %d", i%3), 1000-i
	}
	src := &ordered{synthetic: s}
	p.Forecasts.Reader = src
	write(t, t.TempDir(), p, Options{Workers: 1})
	n := 0
	for _, entries := range src.all {
		n += len(entries)
		if !slices.IsSortedFunc(entries, func(a, b ensemble.Entry) int {
			if c := strings.Compare(a.File, b.File); c != 0 {
				return c
			}
			return a.Message - b.Message
		}) {
			t.Error("entries are not in the order of their files")
		}
	}
	if n != len(p.Forecasts.Entries) {
		t.Errorf("%d fields were read, want each of %d once", n, len(p.Forecasts.Entries))
	}
}

// TestResult: what Write returns and records: files, checksums, warnings, progress, the lists of inputs, and nothing of the unfinished store.
func TestResult(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	p, _ := plan(Int16, 7)
	p.Warnings, p.Interpolation, p.InputChecksums = []string{"of the plan"}, "bilinear", []InputChecksum{{Path: "a", SHA256: "00"}}
	o := sizes(p)
	var mu sync.Mutex
	var progress [][2]int
	o.Workers = 2
	o.Progress = func(done, all int) {
		mu.Lock()
		defer mu.Unlock()
		progress = append(progress, [2]int{done, all})
	}
	o.Validate = func() ([]string, error) { return []string{"of the values"}, nil }
	dir := filepath.Join(t.TempDir(), "a", "store")
	r := write(t, dir, p, o)
	if r.Complete || r.Reused != 0 || !slices.Equal(r.Meta.Warnings, []string{"of the plan", "of the values"}) || r.Meta.Interpolation != "bilinear" || r.Meta.Version != "test" {
		t.Errorf("%+v", r)
	}
	slices.SortFunc(progress, func(a, b [2]int) int { return a[0] - b[0] })
	if want := [][2]int{{1, 3}, {2, 3}, {3, 3}}; !reflect.DeepEqual(progress, want) {
		t.Errorf("progress %v, want %v", progress, want)
	}
	var want []string
	for _, name := range []string{metaName, indexName, manifest.SumsName, "shards/00000.bin", "shards/00001.bin", "shards/00002.bin"} {
		want = append(want, filepath.Join(dir, name))
	}
	if !slices.Equal(r.Outputs, want) {
		t.Errorf("outputs %q, want %q", r.Outputs, want)
	}
	cmd := exec.Command("sha256sum", "-c", "--strict", manifest.SumsName)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o777, shardDir: os.ModeDir | 0o777} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode() != mode {
			t.Errorf("%s: %v, %v, want %v", name, st.Mode(), err, mode)
		}
	}
	if got, err := ReadInputChecksums(dir); err != nil || len(got) != 1 || got["a"].SHA256 != "00" {
		t.Errorf("checksums of inputs %v, %v", got, err)
	}
	s := open(t, dir, OpenOptions{})
	if m := s.Meta; !reflect.DeepEqual(m.Axes(), p.Axes) || !reflect.DeepEqual(m.AnalysisLeads(), p.AnalysisLeads) || !reflect.DeepEqual(m.Inits(), p.Inits) || !reflect.DeepEqual(m.Variables, []Variable{{"t", "K"}, {"gh", "m"}}) {
		t.Errorf("%+v", m)
	}
	again := write(t, dir, p, o)
	if !again.Complete || again.Reused != 3 || len(progress) != 3 {
		t.Errorf("again: %+v, progress %v", again, progress)
	}
	// The journal is left by an interruption after the last stage, and removed.
	if err := os.MkdirAll(filepath.Join(dir, journalDir), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, dir, p, o)
	if _, err := os.Stat(filepath.Join(dir, journalDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the journal: %v", err)
	}
}

// TestValidate: inputs that changed while they were read leave no store.
func TestValidate(t *testing.T) {
	p, _ := plan(Int16, 2)
	dir := t.TempDir()
	changed := errors.New("an input changed")
	if _, err := Write(context.Background(), dir, p, Options{Validate: func() ([]string, error) { return nil, changed }}); !errors.Is(err, changed) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(context.Background(), dir, OpenOptions{}); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("opened: %v", err)
	}
	if r := write(t, dir, p, Options{}); r.Reused == 0 {
		t.Error("the shards were recomputed")
	}
}

// TestUnfinishedStores: an unfinished store of another plan is replaced only if Overwrite is set and the folder has no files of the user.
func TestUnfinishedStores(t *testing.T) {
	begin := func(t *testing.T) string {
		dir := t.TempDir()
		p, _ := plan(Int16, 7)
		o := sizes(p)
		o.Workers = 1
		ctx, cancel := context.WithCancel(context.Background())
		o.Progress = func(int, int) { cancel() }
		if _, err := Write(ctx, dir, p, o); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return dir
	}
	other, _ := plan(BFloat16, 2)
	dir := begin(t)
	before := digests(t, dir)
	if _, err := Write(context.Background(), dir, other, Options{}); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "another unfinished store") {
		t.Errorf("got %v, want exit 73", err)
	}
	if digests(t, dir) != before {
		t.Error("a refusal changed the folder")
	}
	note := filepath.Join(dir, shardDir, "note.txt")
	for _, name := range []string{note, filepath.Join(dir, shardDir, ".00007.bin.partial-1"), filepath.Join(dir, ".store.json.partial-1"), filepath.Join(dir, journalDir, ".00007.json.partial-1")} {
		if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before = digests(t, dir)
	if _, err := Write(context.Background(), dir, other, Options{Overwrite: true}); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "note.txt") {
		t.Errorf("with a file of the user: got %v, want exit 73", err)
	}
	if digests(t, dir) != before {
		t.Error("a refusal changed the folder")
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	write(t, dir, other, Options{Overwrite: true})
	fresh := t.TempDir()
	write(t, fresh, other, Options{})
	if got, want := digests(t, dir), digests(t, fresh); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// Files of a run that was killed before it wrote its plan.
	dir = t.TempDir()
	for _, name := range []string{"shards/00009.bin", indexName, manifest.SumsName, "journal/00009.json"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, other, Options{})
	if got, want := digests(t, dir), digests(t, fresh); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestJournal: a shard is taken over only if it agrees with its journal; of a damaged one it is recomputed.
func TestJournal(t *testing.T) {
	p, _ := plan(Int16, 7)
	o := sizes(p)
	o.Workers = 1
	want := digestsOf(t, p, o)
	for name, damage := range map[string]func(text string) string{
		"another shard":    func(text string) string { return strings.Replace(text, "shards/00000.bin", "shards/00001.bin", 1) },
		"another size":     func(text string) string { return strings.Replace(text, `"size": `, `"size": 1`, 1) },
		"another checksum": func(text string) string { return strings.Replace(text, `"sha256": "`, `"sha256": "0`, 1) },
		"half":             func(text string) string { return text[:len(text)/2] },
	} {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(context.Background())
		begun := o
		begun.Progress = func(int, int) { cancel() }
		if _, err := Write(ctx, dir, p, begun); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		path := filepath.Join(dir, journalName(0))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := damage(string(text))
		if changed == string(text) {
			t.Fatalf("%s: nothing was changed in\n%s", name, text)
		}
		if err := os.WriteFile(path, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := write(t, dir, p, o); r.Reused != 0 {
			t.Errorf("%s: %d shards were taken over", name, r.Reused)
		}
		if got := digests(t, dir); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}

// TestCompleteReplacementOfAnother: a complete store that a killed writer has left to take the place of another one is used by the same
// command only.
func TestCompleteReplacementOfAnother(t *testing.T) {
	old, _ := plan(Int16, 7)
	killed, _ := plan(BFloat16, 4)
	p, _ := plan(Float32, 4)
	for _, same := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "store")
		write(t, dir, old, sizes(old))
		places, err := placesOf(dir)
		if err != nil {
			t.Fatal(err)
		}
		write(t, places.beside, killed, sizes(killed))
		next := p
		if same {
			next = killed
		}
		o := sizes(next)
		o.Overwrite = true
		r, err := Write(context.Background(), dir, next, o)
		if err != nil {
			t.Fatal(err)
		}
		if reused := r.Reused > 0; reused != same || open(t, dir, OpenOptions{}).Storage != next.Storage {
			t.Errorf("the same %v: %d shards of the killed writer are used, and the store has %v", same, r.Reused, open(t, dir, OpenOptions{}).Storage)
		}
	}
}

// changing is a reader that changes the fields of another one.
type changing struct {
	Reader
	change func(f *ensemble.Field) error
}

// Read returns the changed fields.
func (r changing) Read(ctx context.Context, entries []ensemble.Entry, visit func(int, *ensemble.Field) error) error {
	return r.Reader.Read(ctx, entries, func(i int, f *ensemble.Field) error {
		if err := r.change(f); err != nil {
			return err
		}
		return visit(i, f)
	})
}

// TestWrongFields: fields that are not those of the plan are refused with exit 65, and an error of a reader is returned.
func TestWrongFields(t *testing.T) {
	unreadable := &exit.Error{Code: exit.BadData, What: "unreadable"}
	for name, c := range map[string]struct {
		change func(f *ensemble.Field) error
		want   string
	}{
		"a point too few":   {func(f *ensemble.Field) error { f.Values = f.Values[1:]; return nil }, "54, want 55"},
		"another member":    {func(f *ensemble.Field) error { f.Key.Member = 99; return nil }, "not part of the store"},
		"another variable":  {func(f *ensemble.Field) error { f.Key.Variable = "u"; return nil }, "not part of the store"},
		"another level":     {func(f *ensemble.Field) error { f.Key.Level = ensemble.PressureLevel(10); return nil }, "not part of the store"},
		"cannot be decoded": {func(*ensemble.Field) error { return unreadable }, "unreadable"},
	} {
		for _, of := range []string{"forecasts", "analyses"} {
			p, s := plan(Int16, 2)
			if of == "forecasts" {
				p.Forecasts.Reader = changing{s, c.change}
			} else {
				p.Analyses.Reader = changing{s, c.change}
			}
			if of == "analyses" && name == "another member" { // which analyses do not have
				continue
			}
			if _, err := Write(context.Background(), t.TempDir(), p, Options{}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: got %v, want exit 65 and %q", name, of, err, c.want)
			}
		}
	}
}

// TestReplaceWorkingDirectory: a store that is or has the working directory, which may be reached by a link, is replaced, and the directory
// stays the one of the shell that started the program. Without checksums of inputs the store has no list of them.
func TestReplaceWorkingDirectory(t *testing.T) {
	p, o := tiny(BFloat16, 1)
	o.Overwrite = true
	want := digestsOf(t, p, o)
	for _, c := range []struct{ linked, below, out string }{{"", "", "."}, {"", shardDir, ".."}, {".", "", "."}, {".", shardDir, ".."}, {shardDir, "", ".."}} {
		dir, link := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "link")
		old, sizes := tiny(Int16, 1)
		write(t, dir, old, sizes)
		working := dir
		if c.linked != "" {
			if err := os.Symlink(filepath.Join(dir, c.linked), link); err != nil {
				t.Fatal(err)
			}
			working = link
		}
		t.Chdir(filepath.Join(working, c.below))
		write(t, c.out, p, o)
		if got := digests(t, dir); got != want || digests(t, c.out) != want || strings.Contains(got, inputsName) {
			t.Errorf("%+v: got\n%s\nwant\n%s", c, got, want)
		}
		if err := onlyStore(dir); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRemovedWorkingDirectory: a store in a working directory that another process has removed is refused.
func TestRemovedWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	p, o := tiny(Int16, 1)
	if _, err := Write(context.Background(), ".", p, o); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("got %v, want exit 73", err)
	}
	if _, err := placesOf(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("places of a missing folder: %v", err)
	}
}

// TestReplaceDamaged: a store that has lost its shards is replaced, also where folders cannot be exchanged. There its folder of shards is
// missing first.
func TestReplaceDamaged(t *testing.T) {
	defer withoutExchange()()
	p, o := tiny(BFloat16, 1)
	o.Overwrite = true
	want := digestsOf(t, p, o)
	old, sizes := tiny(Int16, 1)
	for _, fails := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "store")
		write(t, dir, old, sizes)
		shards := filepath.Join(dir, shardDir)
		if err := os.RemoveAll(shards); err != nil {
			t.Fatal(err)
		}
		f := faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Mkdir}, At: func(op faultfs.Operation) bool { return op.Path == shards }, Err: unix.EDQUOT}
		if !fails {
			f.N = 0
		}
		_, restore := faultfs.Use(f)
		_, err := Write(context.Background(), dir, p, o)
		restore()
		if fails != errors.Is(err, unix.EDQUOT) {
			t.Errorf("the folder cannot be made: %v: got %v", fails, err)
		}
		write(t, dir, p, o)
		if got := digests(t, dir); got != want {
			t.Errorf("the folder cannot be made: %v: got\n%s\nwant\n%s", fails, got, want)
		}
	}
}

// TestNoRoomAtAll: a store that exceeds the free space is refused before its first shard is written.
func TestNoRoomAtAll(t *testing.T) {
	p, _ := plan(Float32, 1)
	g := &ensemble.Grid{Kind: ensemble.RegularLatLon, NX: 720, NY: 361, Source: ensemble.SourceOrder{ScanningMode: -1}}
	for j := range g.NY {
		g.Lat = append(g.Lat, 90-float64(j)/2)
	}
	for i := range g.NX {
		g.Lon = append(g.Lon, float64(i)/2)
	}
	p.Grid = g
	for k := range 1 << 18 { // of 40 MB each
		p.Inits = append(p.Inits, ensemble.InitAt(p.Inits[0].Add(time.Duration(k+1)*time.Hour)))
	}
	dir := t.TempDir()
	if _, err := Write(context.Background(), dir, p, Options{}); exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("got %v", err)
	}
	if shards, err := filepath.Glob(filepath.Join(dir, shardDir, "*")); err != nil || len(shards) > 0 {
		t.Errorf("shards %v, %v", shards, err)
	}
}

// TestRowsOfBands: without a size bands have as many rows as their headers need to be small, here all.
func TestRowsOfBands(t *testing.T) {
	p, _ := plan(Float32, 2)
	if r := write(t, t.TempDir(), p, Options{}); r.Meta.BandRows != p.Grid.NY {
		t.Errorf("%d rows, want %d", r.Meta.BandRows, p.Grid.NY)
	}
}

// TestLostLease: a writer whose lease another process took, as if this one had been suspended, writes no further shard and no description: the
// folder is that of the other one.
func TestLostLease(t *testing.T) {
	p, _ := plan(Int16, 7)
	for name, shard := range map[string]int{"behind the first shard": 1, "behind the last shard": 3} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := sizes(p)
			o.Workers = 1
			o.Progress = func(done, all int) {
				if done != shard {
					return
				}
				if err := os.WriteFile(filepath.Join(dir, "run.lock"), []byte(`{"host":"other","pid":3,"token":"t"}`), 0o644); err != nil {
					t.Error(err)
				}
			}
			if _, err := Write(context.Background(), dir, p, o); exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), "host other") {
				t.Errorf("got %v", err)
			}
			shards, err := filepath.Glob(filepath.Join(dir, shardDir, "0*.bin"))
			if _, stat := os.Stat(filepath.Join(dir, metaName)); err != nil || len(shards) != shard || !errors.Is(stat, os.ErrNotExist) {
				t.Errorf("%d shards, %v; description %v", len(shards), err, stat)
			}
		})
	}
}
