package rundir

import (
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/manifest"
)

func open(t *testing.T, path string, o Options, want State) *Dir {
	t.Helper()
	d, state, err := Open(path, o)
	if err != nil || state != want {
		t.Fatalf("Open: state %d, want %d: %v", state, want, err)
	}
	if d != nil {
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return d
}

func refused(t *testing.T, path string, o Options, want string) {
	t.Helper()
	d, _, err := Open(path, o)
	if d != nil || exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), want) {
		t.Fatalf("Open: %v, want exit 73 with %q", err, want)
	}
}

// TestLife follows a run directory from its creation to a finished run.
func TestLife(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs", "a")
	d := open(t, path, Options{}, Fresh)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("a run that wrote nothing left its directory")
	}

	d = open(t, path, Options{}, Fresh)
	refused(t, path, Options{}, "its process is running")
	if err := d.Events().Write("train", 1, 0, Value{"loss", 0.5}); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteConfig([]byte("version: 1\n"), []Source{{"/x/train.yaml", []byte("a")}, {"/y/train.yaml", []byte("b")}}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OMP_NUM_THREADS", "7")
	t.Setenv("SECRET_TOKEN", "hunter2")
	if err := d.WriteEnvironment(Environment{Version: "v1", Seed: 5}); err != nil {
		t.Fatal(err)
	}
	env, err := os.ReadFile(d.File("environment.json"))
	if err != nil || !strings.Contains(string(env), `"OMP_NUM_THREADS": "7"`) || strings.Contains(string(env), "hunter2") {
		t.Errorf("environment.json: %v\n%s", err, env)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	refused(t, path, Options{}, "--resume auto")
	d = open(t, path, Options{Resume: true}, Resuming)
	if err := os.WriteFile(d.File("scores.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := View(path).WriteManifest(Manifest{Record: manifest.Record{Status: manifest.OK}, Identity: "one"}, []string{"scores.json", "config.effective.yaml"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	open(t, path, Options{Identity: "one"}, Complete)
	refused(t, path, Options{Identity: "two"}, "other inputs")
	if out, err := exec.Command("sh", "-c", "cd '"+path+"' && sha256sum -c --strict SHA256SUMS").CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(path, "scores.json"), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path, Options{Identity: "one"}); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "scores.json") {
		t.Errorf("a changed output: %v", err)
	}
	for _, name := range []string{"mine.txt", "dates.parquet"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d = open(t, path, Options{Overwrite: true}, Fresh)
	if names, err := d.content(); err != nil || len(names) != 1 || names[0] != "mine.txt" {
		t.Errorf("after --overwrite: %v, %v; want only files that no run wrote", names, err)
	}
}

func TestForeignDirectory(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{}, {Resume: true}, {Overwrite: true}} {
		refused(t, path, o, "contains thesis.tex but no run")
	}
	if _, _, err := Open(filepath.Join(path, "thesis.tex"), Options{}); exit.CodeOf(err) != exit.CannotWrite {
		t.Errorf("a file as run directory: %v", err)
	}
}

// TestLeftovers: temporary files of a killed process are removed when the run
// continues; files of other folders stay.
func TestLeftovers(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, Options{}, Fresh)
	if err := d.Events().Write("train", 1, 0, Value{"loss", 0.5}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model/.weights-00.safetensors.partial-x", "model/.weights-01.safetensors.partial-x", "model/z/.x.partial-1", ".manifest.json.partial-y", "checkpoints/.step-000000007.partial-z/rank-0000.st", "model/weights.partial-1"} {
		file := filepath.Join(path, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	open(t, path, Options{Resume: true}, Resuming)
	var left []string
	if err := filepath.WalkDir(path, func(file string, _ os.DirEntry, err error) error {
		if strings.Contains(file, ".partial-") {
			left = append(left, filepath.Base(file))
		}
		return err
	}); err != nil || len(left) != 1 || left[0] != "weights.partial-1" {
		t.Errorf("left %q, %v; want only the file that is no temporary one", left, err)
	}
}

// TestBothAtOnce is fault 48: of two processes that start at the same time exactly
// one succeeds.
func TestBothAtOnce(t *testing.T) {
	for range 100 {
		path := t.TempDir()
		var wg sync.WaitGroup
		dirs := make([]*Dir, 2)
		for i := range dirs {
			wg.Go(func() {
				d, _, err := Open(path, Options{})
				if err != nil && exit.CodeOf(err) != exit.CannotWrite {
					t.Error(err)
				}
				dirs[i] = d
			})
		}
		wg.Wait()
		if (dirs[0] == nil) == (dirs[1] == nil) {
			t.Fatalf("winners: %v and %v, want one", dirs[0] != nil, dirs[1] != nil)
		}
		for _, d := range dirs {
			if d != nil {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestEvents(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, Options{}, Fresh)
	e := d.Events()
	for step := uint64(1); step <= 5; step++ {
		if err := e.Write("train", step, 0, Value{"loss", 1 / float64(step)}, Value{"note", `a "b"`}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(path, "events.jsonl")
	f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"t":"2026-01-01T00:`); err != nil { // killed in the middle of a line
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if events, err := ReadEvents(path); err != nil || len(events) != 5 {
		t.Fatalf("%d events, %v; want 5 and the torn line forgiven", len(events), err)
	}
	d = open(t, path, Options{Resume: true}, Resuming)
	e = d.Events()
	if err := e.Resumed(3, 0); err != nil {
		t.Fatal(err)
	}
	if err := e.Write("validate", 4, 1, Value{"loss", math.NaN()}, Value{"low", math.Inf(-1)}); err != nil {
		t.Fatal(err)
	}
	events, err := ReadEvents(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []uint64
	for _, ev := range events {
		steps = append(steps, ev.Step)
	}
	if len(steps) != 5 || steps[2] != 3 || steps[3] != 3 || steps[4] != 4 {
		t.Errorf("steps %v, want 1 2 3, resumed 3, 4", steps)
	}
	last := events[4]
	loss, ok := last.Number("loss")
	if low, _ := last.Number("low"); !ok || !math.IsNaN(loss) || !math.IsInf(low, -1) || last.Epoch != 1 || last.Kind != "validate" {
		t.Errorf("last event %+v", last)
	}
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), `"loss":"nan"`) || !strings.Contains(string(text), `"low":"-inf"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if err := os.WriteFile(log, []byte("{}\n"+string(text)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadEvents(path); exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), "events.jsonl:1") {
		t.Errorf("a line that is no event: %v", err)
	}
}

// TestTensorBoard parses the event file by its definition: lengths, both checksums,
// and the protocol buffer of a scalar.
func TestTensorBoard(t *testing.T) {
	path := t.TempDir()
	d := open(t, path, Options{}, Fresh)
	if err := d.Events().Write("train", 1234, 2, Value{"loss", 0.25}, Value{"note", "text"}); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(d.File("tensorboard", "events.out.tfevents.*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var records [][]byte
	for le := binary.LittleEndian; len(raw) > 0; {
		n := le.Uint64(raw)
		if masked(raw[:8]) != le.Uint32(raw[8:]) || masked(raw[12:12+n]) != le.Uint32(raw[12+n:]) {
			t.Fatalf("record %d: wrong checksum", len(records))
		}
		records = append(records, raw[12:12+n])
		raw = raw[16+n:]
	}
	if len(records) != 2 {
		t.Fatalf("%d records %q, want the version and one scalar", len(records), records)
	}
	got := map[protowire.Number]any{}
	var walk func(b []byte, base protowire.Number)
	walk = func(b []byte, base protowire.Number) {
		for len(b) > 0 {
			num, typ, n := protowire.ConsumeTag(b)
			if n < 0 {
				t.Fatal("not a protocol buffer")
			}
			b = b[n:]
			m := protowire.ConsumeFieldValue(num, typ, b)
			key := base*10 + num
			switch typ {
			case protowire.VarintType:
				v, _ := protowire.ConsumeVarint(b)
				got[key] = v
			case protowire.Fixed32Type:
				v, _ := protowire.ConsumeFixed32(b)
				got[key] = math.Float32frombits(v)
			case protowire.BytesType:
				v, _ := protowire.ConsumeBytes(b)
				got[key] = string(v)
				if key == 5 || key == 51 {
					walk(v, key)
				}
			}
			b = b[m:]
		}
	}
	walk(records[0], 0)
	if got[3] != "brain.Event:2" { // file_version of tensorflow.Event
		t.Errorf("the first record reads back as %v", got)
	}
	walk(records[1], 0)
	if got[2] != uint64(1234) || got[511] != "train/loss" || got[512] != float32(0.25) {
		t.Errorf("scalar reads back as %v", got)
	}
	// Known value of the masked checksum: CRC-32C of "123456789" is e3069283.
	if m := masked([]byte("123456789")); m != uint32((0xe3069283>>15|0xe3069283<<17)&0xffffffff)+0xa282ead8 {
		t.Errorf("masked checksum %08x", m)
	}
}
