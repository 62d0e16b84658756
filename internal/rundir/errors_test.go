package rundir

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/manifest"
	"github.com/ensemble-weather/ensemble/internal/testfiles"
)

// run makes an unfinished run, or one that is finished with an identity, with a temporary file that a killed process left.
func run(t *testing.T, dir, identity string) {
	t.Helper()
	d, _, err := Open(dir, Options{})
	if err == nil {
		err = errors.Join(d.WriteConfig([]byte("old"), nil), d.WriteEnvironment(Environment{}), d.Close(), os.Mkdir(d.File("model"), 0o755), os.WriteFile(d.File("model", ".w.partial-1"), nil, 0o644))
	}
	if err == nil && identity != "" {
		err = View(dir).WriteManifest(Manifest{Identity: identity}, []string{"config.effective.yaml"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestRenewCloses: the events of a run that goes on are copied, and the old file is closed.
func TestRenewCloses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(path, []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := testfiles.Left(t, func() {
		for range 20 {
			if err := renew(path); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 5 { // other tests may open some meanwhile
		t.Errorf("%d files stay open", n)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "one\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestEachOperation: whatever operation of a run's begin fails, the run begins, or it is an error with exit 73 or 74, no file stays open, and
// the same command succeeds afterwards.
func TestEachOperation(t *testing.T) {
	for name, c := range map[string]struct {
		before   func(dir string)
		options  Options
		complete bool
	}{
		"fresh":     {func(string) {}, Options{}, false},
		"resume":    {func(dir string) { run(t, dir, "") }, Options{Resume: true}, false},
		"overwrite": {func(dir string) { run(t, dir, "one") }, Options{Overwrite: true}, false},
		"complete":  {func(dir string) { run(t, dir, "one") }, Options{Identity: "one"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			begin := func(dir string) error {
				d, state, err := Open(dir, c.options)
				if err != nil || (state == Complete) != c.complete {
					return errors.Join(err, checkState(state, c.complete))
				}
				if c.complete {
					return nil
				}
				err = errors.Join(d.Events().Write("train", 1, 0, Value{"loss", 0.5}), d.WriteConfig([]byte("new"), []Source{{"a.yaml", []byte("a")}}), d.WriteEnvironment(Environment{}))
				return errors.Join(err, d.Close())
			}
			template := filepath.Join(t.TempDir(), "template")
			c.before(template)
			first, step := 1, 1
			if name == "overwrite" { // it has many operations: one of four
				first, step = 1+rand.IntN(4), 4
				t.Logf("operations %d, %d …", first, first+step)
			}
			for round := range faultfs.Rounds(faultfs.Fault{N: first, Err: unix.EIO}, step) {
				dir := filepath.Join(t.TempDir(), "run")
				if _, err := os.Stat(template); err == nil {
					if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
						t.Fatal(err)
					}
				}
				var hit *faultfs.Operation
				var err error
				open := testfiles.Left(t, func() { hit, err = round.Run(t, func() error { return begin(dir) }) })
				if hit == nil {
					break
				}
				op := fmt.Sprintf("%s of %s", hit.Kind, filepath.Base(hit.Path))
				if code := exit.CodeOf(err); err != nil && code != exit.IO && code != exit.CannotWrite && !c.complete {
					t.Errorf("%s fails: %v", op, err)
				}
				if k := hit.Kind; err == nil && (k == faultfs.Write || k == faultfs.Sync || k == faultfs.SyncDir || k == faultfs.Rename || k == faultfs.Mkdir || k == faultfs.Create) {
					t.Errorf("%s fails, and it is no error", op)
				}
				if open > 0 {
					t.Errorf("%s fails: %d files stay open", op, open)
				}
				if name == "fresh" {
					continue // what has been written refuses another begin
				}
				if err := begin(dir); err != nil {
					t.Errorf("%s fails: then %v", op, err)
				}
			}
		})
	}
}

// checkState is the error of a state that is not the wanted one.
func checkState(state State, complete bool) error {
	if (state == Complete) != complete {
		return fmt.Errorf("state %d, want complete: %v", state, complete)
	}
	return nil
}

// TestRemoveIsDurable: files of an old run that may come back after a power failure are an error.
func TestRemoveIsDurable(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.Mkdir, faultfs.Rename, faultfs.SyncDir, faultfs.Remove} {
		for round := range faultfs.Rounds(faultfs.Fault{Of: []faultfs.Kind{kind}, Err: unix.EIO}, 1) {
			dir := t.TempDir()
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "scores.json"), nil, 0o644), os.WriteFile(filepath.Join(dir, "mine"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			hit, err := round.Run(t, (&Dir{Path: dir}).clear)
			if hit == nil {
				break
			}
			if !errors.Is(err, unix.EIO) {
				t.Errorf("%s %d fails: %v", kind, round.N, err)
			}
			if err := (&Dir{Path: dir}).clear(); err != nil {
				t.Errorf("%s %d fails: then %v", kind, round.N, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFolders: a folder that Open made and nobody wrote to is removed; one that existed stays. Both have the usual permissions.
func TestFolders(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	made, existing := filepath.Join(t.TempDir(), "made"), t.TempDir()
	for _, path := range []string{made, existing} {
		d, _, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || path == made && st.Mode().Perm() != 0o755 {
			t.Errorf("mode %v, %v", st.Mode(), err)
		}
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that Open made: %v", err)
	}
	if _, err := os.Stat(existing); err != nil {
		t.Error(err)
	}
	d := open(t, made, Options{}, Fresh)
	if err := errors.Join(d.Events().Write("train", 1, 0), d.WriteConfig([]byte("x"), []Source{{"/x/a.yaml", []byte("a")}, {"b.yaml", []byte("b")}})); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{EventsFile: 0o644, "tensorboard": 0o755 | os.ModeDir, "config.source": 0o755 | os.ModeDir, "config.source/00-a.yaml": 0o666, "config.source/01-b.yaml": 0o666} {
		if st, err := os.Stat(filepath.Join(made, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: mode %v, want %v, %v", name, st.Mode(), want, err)
		}
	}
}

// TestView: paths of a run that another process writes to, whose events are dropped.
func TestView(t *testing.T) {
	dir := t.TempDir()
	v := View(dir)
	if err := errors.Join(v.Events().Write("train", 1, 0), v.Events().Resumed(1, 0), v.Publish(func() error { return nil }), v.Close()); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || v.File("a", "b") != filepath.Join(dir, "a", "b") {
		t.Errorf("left %v, %v; %s", left, err, v.File("a", "b"))
	}
}

// TestEventsAfterClose: an event of a run that was closed is an error, and does not wait.
func TestEventsAfterClose(t *testing.T) {
	d := open(t, t.TempDir(), Options{}, Fresh)
	e := d.Events()
	if err := errors.Join(e.Write("train", 1, 0), d.Close()); err != nil {
		t.Fatal(err)
	}
	if err := e.Write("train", 2, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if events, err := ReadEvents(d.Path); err != nil || len(events) != 1 {
		t.Errorf("%+v, %v", events, err)
	}
}

// TestValues: numbers of each type, truth values, text and lists are read as they were written; numbers alone go to TensorBoard.
func TestValues(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{}, Fresh)
	before := time.Now().Add(-time.Second)
	values := []Value{{"a", 0.5}, {"b", float32(0.25)}, {"c", 3}, {"d", int64(-4)}, {"e", uint64(5)}, {"f", true}, {"g", "text"}, {"h", []int{1, 2}}, {"i", math.Inf(1)}, {"j", nil}}
	if err := d.Events().Write("kind", 1<<53, -2, values...); err != nil {
		t.Fatal(err)
	}
	if err := d.Events().Write("bad", 1, 0, Value{"x", func() {}}); err == nil || !strings.Contains(err.Error(), "event bad, value x") {
		t.Errorf("a value without JSON: %v", err)
	}
	events, err := ReadEvents(dir)
	if err != nil || len(events) != 1 {
		t.Fatalf("%v, %v", events, err)
	}
	e := events[0]
	if e.Kind != "kind" || e.Step != 1<<53 || e.Epoch != -2 || e.Time.Before(before) || e.Time.After(time.Now().Add(time.Second)) || e.Mono < 0 || e.Mono > 3600 || len(e.Values) != len(values) {
		t.Errorf("%+v", e)
	}
	for name, want := range map[string]float64{"a": 0.5, "b": 0.25, "c": 3, "d": -4, "e": 5, "i": math.Inf(1)} {
		if got, ok := e.Number(name); !ok || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, ok, want)
		}
		if text, ok := e.Text(name); ok {
			t.Errorf("the number %s is the text %q", name, text)
		}
	}
	if text, ok := e.Text("g"); !ok || text != "text" || e.Values["f"] != true || e.Values["j"] != nil || fmt.Sprint(e.Values["h"]) != "[1 2]" {
		t.Errorf("%+v", e.Values)
	}
	var names []string
	for _, r := range records(t, d)[1:] {
		names = append(names, tagOf(t, r))
	}
	if want := []string{"kind/a", "kind/b", "kind/c", "kind/d", "kind/e", "kind/i"}; !slices.Equal(names, want) {
		t.Errorf("TensorBoard has %q, want %q", names, want)
	}
}

// records returns the payloads of the only TensorBoard file of a run.
func records(t *testing.T, d *Dir) (all [][]byte) {
	t.Helper()
	found, err := filepath.Glob(d.File("tensorboard", "events.out.tfevents.*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		n := binary.LittleEndian.Uint64(raw)
		all, raw = append(all, raw[12:12+n]), raw[16+n:]
	}
	return all
}

// field returns the content of a field of a protocol buffer: its bytes, or its number.
func field(t *testing.T, message []byte, number protowire.Number) (content []byte, value uint64) {
	t.Helper()
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal("not a protocol buffer")
		}
		message = message[n:]
		if num == number {
			switch typ {
			case protowire.BytesType:
				content, _ = protowire.ConsumeBytes(message)
			case protowire.VarintType:
				value, _ = protowire.ConsumeVarint(message)
			case protowire.Fixed64Type:
				value, _ = protowire.ConsumeFixed64(message)
			}
			return content, value
		}
		message = message[protowire.ConsumeFieldValue(num, typ, message):]
	}
	return nil, 0
}

// tagOf returns the name of a scalar.
func tagOf(t *testing.T, event []byte) string {
	summary, _ := field(t, event, 5)
	value, _ := field(t, summary, 1)
	tag, _ := field(t, value, 1)
	return string(tag)
}

// TestTensorBoardResumed: after a resume at step 3, TensorBoard drops steps from 4 on: it purges those not below the step of a session with the
// status START, which is 1 (event.proto). Each record has the time of day.
func TestTensorBoardResumed(t *testing.T) {
	d := open(t, t.TempDir(), Options{}, Fresh)
	if err := d.Events().Resumed(3, 0); err != nil {
		t.Fatal(err)
	}
	all := records(t, d)
	if len(all) != 2 {
		t.Fatalf("%d records", len(all))
	}
	session, _ := field(t, all[1], 7)
	_, status := field(t, session, 1)
	if _, step := field(t, all[1], 2); step != 4 || status != 1 {
		t.Errorf("step %d, status %d, want 4 and 1", step, status)
	}
	for _, r := range all {
		_, bits := field(t, r, 1)
		if age := float64(time.Now().UnixNano())/1e9 - math.Float64frombits(bits); age < 0 || age > 600 {
			t.Errorf("a record of %g seconds ago", age)
		}
	}
}

// line is an event of a step and epoch.
func line(step, epoch string) string {
	return `{"t":"2026-01-01T00:00:00Z","mono":1,"kind":"train","step":` + step + `,"epoch":` + epoch + `,"rank":0}` + "\n"
}

// TestReadEventsLimits: steps and epochs that are no exact integers of their types are refused, with the line; the largest are read.
func TestReadEventsLimits(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // "": read
	}{
		{line("0", "0"), ""}, {line("9007199254740992", "2147483648"), ""}, {line("1", "-2147483648"), ""},
		{line("-1", "0"), "out of range"}, {line("9007199254740994", "0"), "out of range"}, {line("1", "2147483649"), "out of range"}, {line("1", "-2147483649"), "out of range"},
		{strings.Replace(line("1", "0"), `"train"`, "7", 1), "has no kind"}, {strings.Replace(line("1", "0"), "2026-01", "2026", 1), "parsing time"}, {"[]\n", "cannot unmarshal"}, {"\n", "unexpected end"},
	} {
		dir := t.TempDir()
		text := line("7", "0") + c.text + line("9", "0")
		if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		events, err := ReadEvents(dir)
		if c.want == "" {
			if err != nil || len(events) != 3 {
				t.Errorf("%s: %d events, %v", c.text, len(events), err)
			}
			continue
		}
		if exit.CodeOf(err) != exit.BadData || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), EventsFile+":2") {
			t.Errorf("%s: %v, want exit 65 with %q and the second line", c.text, err, c.want)
		}
		// At the end the line may be one that a killed process wrote in part, but only the last.
		if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(line("7", "0")+c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadEvents(dir); exit.CodeOf(err) != exit.BadData {
			t.Errorf("%s at the end: %v", c.text, err)
		}
	}
	if _, err := ReadEvents(t.TempDir()); exit.CodeOf(err) != exit.NotYet {
		t.Errorf("no log: %v, want exit 66", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(strings.Repeat(line("7", "0"), 100)), 0o644); err != nil { // more than one read
		t.Fatal(err)
	}
	for n := 1; n <= 3; n++ {
		_, restore := faultfs.Use(faultfs.Fault{N: n, Of: []faultfs.Kind{faultfs.Read}, Err: unix.EIO})
		events, err := ReadEvents(dir)
		restore()
		if exit.CodeOf(err) != exit.IO || len(events) > 0 {
			t.Errorf("read %d fails: %d events, %v", n, len(events), err)
		}
	}
}

// TestResumedLines: a resume adds no empty line behind a whole one, and ends one that was torn.
func TestResumedLines(t *testing.T) {
	for _, torn := range []string{"", `{"t":`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(line("7", "0")+torn), 0o644); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir, Options{Resume: true}, Resuming)
		if err := errors.Join(d.Events().Resumed(7, 0), d.Close()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, EventsFile))
		lines := strings.SplitAfter(string(text), "\n")
		want := 3
		if torn != "" {
			want = 4
		}
		if err != nil || len(lines) != want || lines[want-1] != "" || lines[0] != line("7", "0") || torn != "" && lines[1] != torn+"\n" {
			t.Errorf("%q, %v", lines, err)
		}
		if events, err := ReadEvents(dir); err != nil || len(events) != 2 || events[1].Kind != "resumed" {
			t.Errorf("%+v, %v", events, err)
		}
	}
}

// TestResumedUnreadable: an event file whose end cannot be read is an error, as an event might be appended to a torn line.
func TestResumedUnreadable(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, EventsFile), []byte(line("7", "0")+`{"t":`), 0o644); err != nil {
		t.Fatal(err)
	}
	d := open(t, dir, Options{Resume: true}, Resuming)
	defer d.Close()
	s, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Read}, Err: unix.EIO,
		At: func(op faultfs.Operation) bool { return filepath.Base(op.Path) == EventsFile && op.Bytes == 1 }})
	defer restore()
	if err := d.Events().Resumed(7, 0); !errors.Is(err, unix.EIO) || len(s.Injected()) != 1 {
		t.Errorf("got %v after %v", err, s.Injected())
	}
}

// TestNoEvents: events of no run are dropped.
func TestNoEvents(t *testing.T) {
	var e *Events
	if err := errors.Join(e.Write("train", 1, 0), e.Resumed(1, 0), e.Sync()); err != nil {
		t.Error(err)
	}
}

// TestEnvironmentFile: the record of the machine has what the process is, and keeps what the caller states.
func TestEnvironmentFile(t *testing.T) {
	d := open(t, t.TempDir(), Options{}, Fresh)
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, given := range []time.Time{{}, start} {
		if err := d.WriteEnvironment(Environment{Version: "v1", Threads: 3, Start: given}); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(d.File("environment.json"))
		var e Environment
		if err := errors.Join(err, json.Unmarshal(text, &e)); err != nil || !strings.HasSuffix(string(text), "}\n") {
			t.Errorf("%v\n%s", err, text)
		}
		host, _ := os.Hostname()
		if e.Go != runtime.Version() || e.System != runtime.GOOS+"/"+runtime.GOARCH || e.CPUs != runtime.NumCPU() || e.Host != host || e.Version != "v1" || e.Threads != 3 {
			t.Errorf("%+v", e)
		}
		if given.IsZero() && time.Since(e.Start).Abs() > time.Hour || !given.IsZero() && !e.Start.Equal(start) {
			t.Errorf("start %v, given %v", e.Start, given)
		}
	}
}

// TestManifestErrors: a run without a manifest, and outputs that are gone.
func TestManifestErrors(t *testing.T) {
	dir := t.TempDir()
	if m, err := ReadManifest(dir); m != nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no manifest: %v, %v", m, err)
	}
	if err := View(dir).WriteManifest(Manifest{}, []string{"gone"}); err == nil {
		t.Error("an output that is gone was listed")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := View(dir).WriteManifest(Manifest{Command: "train", Identity: "one"}, nil); err != nil {
		t.Fatal(err)
	}
	if m, err := ReadManifest(dir); err != nil || m.Command != "train" || m.Identity != "one" || m.Schema != "ensemble.run/1" {
		t.Errorf("%+v, %v", m, err)
	}
	if err := os.WriteFile(filepath.Join(dir, manifest.Name), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if m, err := ReadManifest(dir); m != nil || exit.CodeOf(err) != exit.BadData {
		t.Errorf("half a manifest: %v, %v", m, err)
	}
	if err := os.WriteFile(filepath.Join(dir, EventsFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, Options{Identity: "one"}); exit.CodeOf(err) != exit.BadData {
		t.Errorf("a run with half a manifest: %v", err)
	}
}

// TestSecondClose: to close a run that has replaced another one again does not touch the run that came after it.
func TestSecondClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run(t, dir, "one")
	first := open(t, dir, Options{Overwrite: true}, Fresh)
	if err := errors.Join(first.WriteConfig([]byte("first"), nil), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, Options{Overwrite: true}, Fresh)
	if err := errors.Join(second.WriteConfig([]byte("second"), nil), first.Close()); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(second.File("config.effective.yaml")); err != nil || string(text) != "second" {
		t.Errorf("the configuration is %q, %v", text, err)
	}
	if err := errors.Join(second.Publish(func() error { return nil }), second.Close()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(second.File("config.effective.yaml")); err != nil || string(text) != "old" {
		t.Errorf("after both, which had no checkpoint, the configuration is %q, %v", text, err)
	}
}

// TestUnknownState: if it cannot be determined whether a run was set aside, a run does not begin, and the old one comes back later.
func TestUnknownState(t *testing.T) {
	for _, name := range []string{replacingDir, replacedDir, "LATEST", manifest.Name} {
		root := t.TempDir()
		old, dir := replacement(t, root), filepath.Join(root, "run")
		if err := (&Dir{Path: dir}).setAside(); err != nil {
			t.Fatal(err)
		}
		s, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Stat}, At: func(o faultfs.Operation) bool { return filepath.Base(o.Path) == name }, Err: unix.EIO})
		_, _, err := Open(dir, Options{Overwrite: true})
		restore()
		if len(s.Injected()) != 1 || exit.CodeOf(err) != exit.IO || !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %d errors, %v, want exit 74", name, len(s.Injected()), err)
		}
		if isNew, err := oldOrNew(dir, old); isNew || err != nil {
			t.Errorf("%s: the new run: %v, %v", name, isNew, err)
		}
	}
}

// TestLeftoversThatStay: a temporary file of a killed process that cannot be removed is an error, in whatever folder it is.
func TestLeftoversThatStay(t *testing.T) {
	for _, name := range []string{".manifest.json.partial-1", "model/.w.partial-1", "model/z/.w.partial-1"} {
		dir := filepath.Join(t.TempDir(), "run")
		run(t, dir, "")
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
		_, restore := faultfs.Use(faultfs.Fault{N: 1, Of: []faultfs.Kind{faultfs.Remove}, At: func(o faultfs.Operation) bool { return o.Path == file }, Err: unix.EIO})
		_, _, err := Open(dir, Options{Resume: true})
		restore()
		if !errors.Is(err, unix.EIO) || exit.CodeOf(err) != exit.IO {
			t.Errorf("%s: %v, want exit 74", name, err)
		}
		open(t, dir, Options{Resume: true}, Resuming)
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnwritableEnvironment: a record that JSON cannot represent is an error, and leaves no file.
func TestUnwritableEnvironment(t *testing.T) {
	d := open(t, t.TempDir(), Options{}, Fresh)
	if err := d.WriteEnvironment(Environment{Start: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil || !strings.Contains(err.Error(), "year") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(d.File("environment.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file: %v", err)
	}
}
