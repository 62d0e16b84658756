package notebooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	rundemo "github.com/ensemble-weather/ensemble/ensemble/run/demo"
	"github.com/ensemble-weather/ensemble/internal/answer"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testdata"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
)

// cellVariable names the cell that a test process runs, on the data in dataVariable.
const (
	cellVariable = "ENSEMBLE_TEST_CELL"
	dataVariable = "ENSEMBLE_TEST_CELL_DATA"
)

func TestMain(m *testing.M) {
	if cell := os.Getenv(cellVariable); cell != "" {
		cells[cell]()
		os.Exit(0)
	}
	code := m.Run()
	if dir, err := weather(); err == nil {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// weather is a folder with the demo's data of eight inits and four members.
var weather = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ensemble-notebooks-")
	if err != nil {
		return "", err
	}
	o := rundemo.Options{Root: dir, DataOnly: true}
	o.Data.Inits, o.Data.Members = 8, 4
	_, err = rundemo.Run(context.Background(), o)
	return dir, err
})

// value returns x; an error is a bug of the test.
func value[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// data opens the folder of weather, with all results in a folder of the test.
func data(t *testing.T, opts ...Option) *Dataset {
	t.Helper()
	testdecoder.Path(t)
	dir, err := weather()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openAt(dir, append(opts, In(t.TempDir()))...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openAt(dir string, opts ...Option) (*Dataset, error) {
	return Open(filepath.Join(dir, "demo-data", "demo_fc_*.grib2"), append(opts, Analyses(filepath.Join(dir, "demo-data", "demo_an_*.nc")))...)
}

// tiny is a network that trains in a moment.
var tiny = Set("model.base=2", "model.stages=1", "train.epochs=2", "train.threads=1", "baselines=[climatology]")

// TestFiveLines runs the example of the package comment; another program reads the products.
func TestFiveLines(t *testing.T) {
	d := data(t, Cached())
	r, err := Train("quick", d, Target("t850"), tiny)
	if err != nil {
		t.Fatal(err)
	}
	cycle := d.Init("2001-02-19T00Z")
	p, err := r.Predict(cycle, Lead("48h"), Quantiles(0.9), Event("t>273.15"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Predict(cycle, Lead("24h"), Quantiles(0.9), Event("t>273.15")); exit.CodeOf(err) != exit.Usage || !strings.Contains(fmt.Sprint(err), "does not predict lead time 24h") {
		t.Errorf("another lead: %v", err)
	}
	spread := p.Spread("t850")
	copied := filepath.Join(t.TempDir(), "out", "p.nc")
	if err := errors.Join(spread.Err(), p.WriteNetCDF(copied)); err != nil {
		t.Fatal(err)
	}
	values, shape := spread.Float32s(), spread.Shape()
	if shape != [2]int{len(spread.Lat()), len(spread.Lon())} || len(values) != shape[0]*shape[1] || spread.Unit != "K" {
		t.Errorf("shape %v of %d values, %d latitudes, %d longitudes, unit %q", shape, len(values), len(spread.Lat()), len(spread.Lon()), spread.Unit)
	}
	const script = `import netCDF4, sys
f = netCDF4.Dataset(sys.argv[1])
v = [f[n] for n in f.variables if n.endswith("_spread") and "ensemble" not in n][0]
x = v[:].reshape(len(f["latitude"]), len(f["longitude"]))
print("%.6g %.6g %.6g %.6g" % (x[0, 1], x[-1, -1], f["latitude"][0], f["longitude"][1]))`
	out, err := exec.Command(testdata.Python(t, "netCDF4"), "-c", script, copied).CombinedOutput()
	want := fmt.Sprintf("%.6g %.6g %.6g %.6g", values[1], values[len(values)-1], spread.Lat()[0], spread.Lon()[1])
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("netCDF4 reads %s (%v), Float32s returns %s", out, err, want)
	}
	upper, chance := p.Quantile("t850", 0.9), p.Probability("t>273.15")
	if err := errors.Join(upper.Err(), chance.Err()); err != nil {
		t.Fatal(err)
	}
	mean := p.Mean("t850").Float32s()
	for i, q := range upper.Float32s() { // z of 0.9
		if want := mean[i] + 1.2815516*values[i]; q-want > 1e-3 || want-q > 1e-3 {
			t.Fatalf("quantile 0.9 of point %d is %g, the distribution's %g", i, q, want)
		}
	}
	if v := chance.Float32s(); slices.Min(v) < 0 || slices.Max(v) > 1 {
		t.Errorf("probabilities from %g to %g", slices.Min(v), slices.Max(v))
	}
	for name, picture := range map[string]*Picture{"map": spread.Map(Europe), "probability": chance.Map(Globe), "loss": r.Loss()} {
		if picture.Err() != nil || len(picture.PNG)+len(picture.SVG) == 0 || len(picture.PNG)+len(picture.SVG) > 90_000 {
			t.Errorf("%s: %d bytes of PNG, %d of SVG, error %v; want a small picture", name, len(picture.PNG), len(picture.SVG), picture.Err())
		}
	}
	if m, err := png.Decode(bytes.NewReader(spread.Map(Europe).PNG)); err != nil || m.Bounds().Dx() > 800 {
		t.Errorf("the map: %v", err)
	}
	s := p.Score(d)
	if s.Err() != nil || s.result.Find("crps_gauss", "network", "t", "850hPa", "48h") == nil {
		t.Errorf("scores of the prediction: %v", s.Err())
	}

	if of := s.Select("network"); of.Err() != nil || of.result.Find("crps_gauss", "network", "t", "850hPa", "48h") == nil || of.result.Find("crps_gauss", "raw2", "t", "850hPa", "48h") != nil {
		t.Errorf("scores of the network: %v", of.Err())
	}
	if code := exit.CodeOf(s.Select("nobody").SkillScores().Err()); code != exit.Usage {
		t.Errorf("scores of an unknown system: exit %d", code)
	}

	// A second run gives the same results from the stored files and recomputes nothing.
	begun := time.Now()
	d2, err := openAt(value(weather()), Cached(), In(d.folder))
	if err != nil {
		t.Fatal(err)
	}
	r2, err := Train("quick", d2, Target("t850"), tiny)
	if err != nil || r2.Dir != r.Dir {
		t.Fatalf("the same training again: %v, %v; want %s", r2, err, r.Dir)
	}
	for path, at := range changed(t, d.folder) {
		if at.After(begun) && filepath.Base(path) != "quick.yaml" {
			t.Errorf("%s was written again", path)
		}
	}
	if other, _, err := d2.locate("quick", []Option{Target("gh500"), tiny}); err != nil || other.Dir == r.Dir {
		t.Errorf("a training of another target: %v, %v", other, err)
	}
}

// changed returns the modification times of the files in a folder.
func changed(t *testing.T, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	if err := filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		if err == nil && !st.IsDir() {
			out[path] = st.ModTime()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestContent: names depend on content. A file with a new modification time is the same; one with a different byte
// is not, even if its size and time are unchanged.
func TestContent(t *testing.T) {
	dir := t.TempDir()
	file, memory := filepath.Join(dir, "a"), filepath.Join(dir, "memory")
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	write := func(text string, at time.Time) {
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chtimes(file, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(memory string) string {
		s, err := checksums([]string{file}, memory)
		if err != nil {
			t.Fatal(err)
		}
		return s[0]
	}
	write("one", at)
	first := sum(memory)
	write("one", at.Add(time.Hour))
	if sum(memory) != first {
		t.Error("a touched file has another name")
	}
	write("two", at.Add(2*time.Hour))
	second := sum(memory)
	if second == first {
		t.Error("another content has the same name")
	}
	write("one", at.Add(2*time.Hour))
	if sum(memory) != first || sum("") != first {
		t.Error("a change of the content with its old size and time was not detected")
	}
	if err := os.WriteFile(filepath.Join(memory, "checksums.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if sum(memory) != first {
		t.Error("a damaged cache of checksums is used")
	}
}

// TestErrors: every fault has the program's exit code, and methods of a failed value return its error.
func TestErrors(t *testing.T) {
	d := data(t)
	r := &Run{Dir: filepath.Join(t.TempDir(), "none"), data: d}
	p := &Prediction{Init: d.Init("first"), Outputs: d.files[:1], run: r}
	errOf := func(_ any, err error) error { return err }
	for _, c := range []struct {
		name string
		err  error
		want exit.Code
	}{
		{"no file", errOf(Open("nothing/*.grib2")), exit.NotYet},
		{"an option of another function", errOf(Open("x", Target("t"))), exit.Usage},
		{"no option", errOf(Open("x", Option{})), exit.Usage},
		{"no lead", errOf(Train("x", d, Lead("48"))), exit.Usage},
		{"a lead that the data do not have", errOf(Train("x", d, Lead("30h"))), exit.Usage},
		{"no variable", errOf(Train("x", d, Target("temperature"))), exit.Usage},
		{"a variable that the data do not have", errOf(Train("x", d, Target("q850"))), exit.Usage},
		{"a level that the data do not have", errOf(Train("x", d, Target("t700"))), exit.Usage},
		{"targets on incompatible levels", errOf(Train("x", d, Target("t850"), Target("t2m"))), exit.Usage},
		{"no name", errOf(Train("../x", d)), exit.Usage},
		{"an unknown key", errOf(Train("x", d, Set("train.epoch=5"))), exit.Usage},
		{"one member", errOf(Train("x", d, Set("data.members.use=1"))), exit.Usage},
		{"no time", d.Init("yesterday").Err(), exit.Usage},
		{"a time without its zone", d.Init("2001-01-01T00").Err(), exit.Usage},
		{"a missing init", errOf(r.Predict(d.Init("1999-01-01T00Z"))), exit.NotYet},
		{"no training", errOf(r.Predict(d.Init("first"))), exit.NotYet},
		{"quantiles in per cent", errOf(r.Predict(d.Init("first"), Quantiles(10))), exit.Usage},
		{"no event", errOf(r.Predict(d.Init("first"), Event("warm"))), exit.Usage},
		{"nothing since", errOf(r.Verify(d, Since("2030-01-01"))), exit.NotYet},
		{"no losses", r.Loss().Err(), exit.NotYet},
		{"no scores", r.Scores().Err(), exit.NotYet},
		{"histograms without scores", r.Scores().Histograms().Err(), exit.NotYet},
		{"a field that was not predicted", p.Spread("t850").Err(), exit.NotYet},
		{"a map of no field", p.Mean("t850").Map(Europe).Err(), exit.NotYet},
		{"an area between points", (&Field{Field: &ensemble.Field{Key: ensemble.Key{Variable: "t"}, Grid: value(ensemble.NamedGrid("10deg")), Values: make([]float32, 19*36)}}).
			Map(Area{North: 44, West: 1, South: 43, East: 2}).Err(), exit.Usage},
	} {
		if got := exit.CodeOf(c.err); got != c.want {
			t.Errorf("%s: exit %d, want %d: %v", c.name, got, c.want, c.err)
		}
	}
}

// cells are programs like those the kernel compiles.
var cells = map[string]func(){
	"error": func() { MustOpen("nothing/*.grib2") },
	"chain": func() { (&Prediction{Init: Init{}, run: &Run{}}).Spread("temperature").Map(Europe).Show() },
	"train": func() {
		d := value(openAt(os.Getenv(dataVariable), Cached(), In("kept")))
		MustTrain("long", d, Target("t850"), tiny, Set("train.epochs=100000", "train.checkpoint.every=100000 epochs"))
	},
	"table": func() {
		t := &Table{Section: answer.Section{Columns: answer.TextColumns("n")}}
		for i := range 1000 {
			t.Rows = append(t.Rows, []any{i})
		}
		t.Show()
	},
	"answer": func() { Show(found{}) },
}

// found is the result of a job.
type found struct{}

func (found) Sections() answer.Sections {
	return answer.Sections{{Title: "found", Columns: answer.NumberColumns("%.1f", "n"), Rows: [][]any{{2.5}}}}
}

// cell runs one of them in a folder; begun is called after its start.
func cell(t *testing.T, name, dir string, begun func(*os.Process)) (stdout, stderr string, code exit.Code) {
	t.Helper()
	testdecoder.Path(t)
	var out, errs bytes.Buffer
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), cellVariable+"="+name, dataVariable+"="+value(weather()))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if begun != nil {
		begun(cmd.Process)
	}
	_ = cmd.Wait() // the caller checks the exit code
	return out.String(), errs.String(), exit.Code(cmd.ProcessState.ExitCode())
}

// TestMust: a cell that fails prints the program's four lines and has its exit code.
func TestMust(t *testing.T) {
	for name, want := range map[string]exit.Code{"error": exit.NotYet, "chain": exit.Usage} {
		_, errs, code := cell(t, name, t.TempDir(), nil)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if code != want || !strings.HasPrefix(lines[0], fmt.Sprintf("ensemble: error[E%03d]: ", want)) || !strings.HasPrefix(lines[len(lines)-1], "  fix: ") {
			t.Errorf("%s: exit %d, want %d, and printed\n%s", name, code, want, errs)
		}
	}
}

// TestLines: no call prints more than MaxLines lines.
func TestLines(t *testing.T) {
	out, _, code := cell(t, "table", t.TempDir(), nil)
	if n := strings.Count(out, "\n"); code != exit.OK || n > MaxLines || n < maxRows {
		t.Errorf("a table of 1000 rows printed %d lines, exit %d", n, code)
	}
	if out, _, code := cell(t, "answer", t.TempDir(), nil); code != exit.OK || out != "found\n  n\n2.5\n" {
		t.Errorf("the answer of a job printed %q, exit %d", out, code)
	}
	var b bytes.Buffer
	l := &lineLimiter{w: &b, left: MaxLines - 1}
	for i := range 1000 {
		fmt.Fprintf(l, "%d\n%d", i, i)
	}
	if n := strings.Count(b.String(), "\n"); n != MaxLines || !strings.HasSuffix(b.String(), "omitted\n") {
		t.Errorf("%d lines of 1000 were printed, the last %q", n, b.String()[max(0, b.Len()-60):])
	}
}

// TestStop interrupts a training as the kernel does when a cell is stopped: it saves, and the same cell resumes
// it.
func TestStop(t *testing.T) {
	data(t) // create the data first
	dir := t.TempDir()
	stop := func(kind string) func(*os.Process) {
		return func(p *os.Process) {
			defer p.Signal(syscall.SIGINT)
			for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				runs, _ := filepath.Glob(filepath.Join(dir, "kept", "long-*"))
				if len(runs) != 1 {
					continue
				}
				if events, err := rundir.ReadEvents(runs[0]); err == nil && slices.ContainsFunc(events, func(e rundir.Event) bool { return e.Kind == kind }) {
					return
				}
			}
		}
	}
	for _, kind := range []string{"epoch", "resumed"} {
		_, errs, code := cell(t, "train", dir, stop(kind))
		if code != exit.SaveAndStop || !strings.Contains(errs, "error[E075]") || !strings.Contains(errs, "fix: run the cell again") {
			t.Fatalf("stopped after %q: exit %d, printed\n%s", kind, code, errs)
		}
	}
	runs, _ := filepath.Glob(filepath.Join(dir, "kept", "long-*"))
	events, err := rundir.ReadEvents(runs[0])
	if err != nil || !slices.ContainsFunc(events, func(e rundir.Event) bool { return e.Kind == "resumed" && e.Step > 0 }) {
		t.Errorf("the second cell did not resume the first: %v", err)
	}
}

// TestPlaces: variables may have common short names.
func TestPlaces(t *testing.T) {
	for text, want := range map[string]string{"t2m": "2t@2m", "2t": "2t@2m", "t": "t", "t850": "t@850hPa", "gh@500hPa": "gh@500hPa", "msl": "msl@msl", "u10": "10u@10m", "z500": "z@500hPa",
		"t0": "", "x850": "", "850": "", "": "", "t@": "", "msl850": "", "t8.5": ""} {
		p, err := parseVariable(text)
		if got := p.String(); (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
}

// TestSplit: the shards of a mesh cover every point once, the halo is the rim of the shard around the globe, and
// training on the mesh has the losses of one rank.
func TestSplit(t *testing.T) {
	d := data(t, Cached())
	sgd := Set("train.optimizer=sgd", "train.learning_rate=0.002", "train.epochs=1")
	one, err := Train("split", d, Target("t850"), tiny, sgd)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Train("split", d, Target("t850"), tiny, sgd, Set("train.mesh=lat:2"))
	if err != nil || two.Dir == one.Dir {
		t.Fatalf("on a mesh: %v, %v", two, err)
	}
	losses := CompareLosses(one, two)
	if losses.Err() != nil || len(losses.Rows) != 1 {
		t.Fatalf("%+v", losses)
	}
	for _, row := range losses.Rows {
		if difference := row[3].(float64); !(difference <= 1e-6) {
			t.Errorf("epoch %v: one rank has %v, two %v", row[0], row[1], row[2])
		}
	}
	s, err := one.Split("lat:2 lon:2")
	if err != nil {
		t.Fatal(err)
	}
	covered := make([]int, s.Grid.NX*s.Grid.NY)
	for _, p := range s.Parts {
		for r := p.Rows.Lo; r < p.Rows.Hi; r++ {
			for c := p.Columns.Lo; c < p.Columns.Hi; c++ {
				covered[r*s.Grid.NX+c]++
			}
		}
	}
	if len(s.Parts) != 4 || slices.Min(covered) != 1 || slices.Max(covered) != 1 {
		t.Errorf("%d parts %v do not cover the grid once", len(s.Parts), s.Parts)
	}
	rim := 0
	for _, p := range haloParts(s.Halos[0], s.Grid.NX) {
		rim += p.Rows.Len() * p.Columns.Len()
	}
	if want := 34 + 2*16; rim != want { // a row below with its corners, a column on both sides
		t.Errorf("the halo of rank 0 has %d points, want %d", rim, want)
	}
	var bytes int64 // bytes that rank 0 sends of the input: only those that are needed
	if bytes = s.Halos[0].Bytes; bytes != int64(rim*s.Halos[0].Shape[0]*s.Halos[0].Shape[1]*s.Halos[0].Shape[2]*4) {
		t.Errorf("%d bytes for a halo of %d points of %v", bytes, rim, s.Halos[0].Shape)
	}
	if p := s.Picture(); p.Err() != nil || !strings.Contains(string(p.SVG), "rank 3") {
		t.Errorf("the picture: %v", p.Err())
	}
	for _, mesh := range []string{"up:2", "lat:64"} {
		if _, err := one.Split(mesh); exit.CodeOf(err) != exit.Usage {
			t.Errorf("mesh %s: %v", mesh, err)
		}
	}
}

func Example() {
	ds := MustDemo(Small())
	ds.Show()
	run := MustTrain("quick", ds, Target("t850"), Small())
	p := run.MustPredict(ds.Init("2001-12-17T00Z"), Lead("48h"))
	p.Spread("t850").Map(Europe).Show()
}
