package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/filesystem"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testgrib"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// Variables of a process of this test program that runs a command and records its operations on files.
const (
	recordedFolder = "ENSEMBLE_TEST_RECORDED_FOLDER" // whose operations are recorded
	recordingFile  = "ENSEMBLE_TEST_RECORDING"       // for the log, when the command has ended
	killedAfter    = "ENSEMBLE_TEST_KILLED_AFTER"    // operation after which the process kills itself
)

// runRecorded runs a command line and records its operations if the environment says so.
func runRecorded(args []string) {
	root := os.Getenv(recordedFolder)
	if root == "" {
		main()
	}
	r, err := powerfail.Record(root)
	if err != nil {
		panic(err)
	}
	if last, err := strconv.Atoi(os.Getenv(killedAfter)); err == nil {
		r.After = func(n int) {
			if n == last {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // the signal needs a moment
			}
		}
	}
	filesystem.Replace(r)
	code := execute(args, os.Stdout, os.Stderr)
	if path := os.Getenv(recordingFile); path != "" {
		l, err := r.Log()
		if err != nil {
			panic(err)
		}
		text, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			panic(err)
		}
	}
	os.Exit(int(code))
}

// disturbed is a command that is killed, or whose power is cut, at any operation on a folder.
type disturbed struct {
	name   string
	root   string         // folder in which it writes
	before powerfail.Tree // its content before the command
	args   []string
	// done returns the checksums of finished output, "" if there is none. It fails the test if output is incomplete.
	done  func(*testing.T) string
	parts bool // files are old, new or absent one by one
	// keeps states that there is a result at any time: the old one or the new one.
	keeps bool
}

// allDisturbed are made by the first test that needs them. Tests of this package do not run at the same time.
var allDisturbed []disturbed

// disturbances returns all commands that write, on the smallest data. One processor makes the order of their operations the
// same each time.
func disturbances(t *testing.T) []disturbed {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000") // so that products have the same bytes
	f := shared(t, "disturbed")
	oneProcessor(t)
	if allDisturbed == nil {
		allDisturbed = makeDisturbances(f)
	}
	return allDisturbed
}

func makeDisturbances(f *trial) []disturbed {
	t := f.T
	t.Helper()
	dir := func(name string) string {
		path := filepath.Join(f.dir, name)
		if err := os.MkdirAll(path, 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	past := time.Now().Add(-time.Hour)
	input := f.put("fc.grib2", join(cycle(lastDay)...))
	if err := os.Chtimes(input, past, past); err != nil {
		t.Fatal(err)
	}
	train := []string{"train", "-c", f.config, "--progress", "none", "--set", "train.epochs=2", "--set", "data.store=" + f.prepared(), "--run-dir"}
	predict := []string{"predict", "--input", input, "--format", "netcdf,grib2,zarr", "--threads", "1", "--progress", "none", "--out"}
	runs, products1, names := dir("runs"), dir("products"), dir("names")
	another := f.otherRun()
	published := filepath.Join(dir("published"), "out")
	f.expect(exit.OK, nil, append(predict, published, "--run-dir", f.run)...)
	archived := filepath.Join(dir("archived"), "store")
	prepare := []string{"data", "prepare", "--shard-size", "200KiB", "--memory", "8MiB", "--progress", "none"}
	f.expect(exit.OK, nil, append(prepare, "-c", f.smallArchive(2), "--out", archived)...)
	analysis := testgrib.Message{Variable: testgrib.Temperature, HPa: 850, Init: lastDay.AddDate(0, 0, 2), Unit: 1, Single: true}
	analysis.Values = weather(analysis)
	truth := f.put("an.grib2", analysis.Bytes())
	verify := []string{"verify", "--forecast", filepath.Join(published, "2*", "*.zarr"), "--analysis", truth, "--members", input, "--run-dir", f.run, "--progress", "none"}
	return []disturbed{
		{name: "train", root: runs, args: append(train, filepath.Join(runs, "run"), "--resume", "auto"), done: training(filepath.Join(runs, "run"))},
		{name: "train again", root: dir("again"), before: folder(t, filepath.Dir(f.run), "run"), args: append(train, filepath.Join(dir("again"), "run"), "--overwrite", "always"), done: training(filepath.Join(dir("again"), "run"))},
		{name: "data prepare", root: dir("stores"), args: append(prepare, "-c", f.smallArchive(3), "--out", filepath.Join(dir("stores"), "store")), done: store(filepath.Join(dir("stores"), "store"))},
		{name: "data prepare again", root: dir("storesagain"), before: folder(t, filepath.Dir(archived), "store"), args: append(prepare, "-c", f.smallArchive(3), "--out", filepath.Join(dir("storesagain"), "store"), "--overwrite", "always"), done: store(filepath.Join(dir("storesagain"), "store")), keeps: true},
		{name: "predict", root: products1, args: append(predict, filepath.Join(products1, "out"), "--run-dir", f.run), done: products(filepath.Join(products1, "out"), 1)},
		{name: "predict again", root: dir("replaced"), before: folder(t, filepath.Dir(published), "out"), args: append(predict, filepath.Join(dir("replaced"), "out"), "--run-dir", another, "--overwrite", "always"), done: products(filepath.Join(dir("replaced"), "out"), 1), keeps: true},
		{name: "verify", root: dir("scores"), parts: true, args: append(verify, "--out", filepath.Join(dir("scores"), "out")), done: scores(filepath.Join(dir("scores"), "out"))},
		{name: "verify --rolling", root: dir("rolling"), parts: true, args: append(verify, "--rolling", filepath.Join(dir("rolling"), "out")), done: scores(filepath.Join(dir("rolling"), "out"))},
		{name: "model promote", root: names, args: []string{"model", "promote", f.run, "--as", filepath.Join(names, "t850")}, done: promoted(filepath.Join(names, "t850"))},
	}
}

// folder reads a folder of another one as the content of the latter.
func folder(t *testing.T, dir, name string) powerfail.Tree {
	t.Helper()
	all, err := powerfail.ReadTree(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	out := powerfail.Tree{name + "/": nil}
	for path, data := range all {
		out[name+"/"+path] = data
	}
	return out
}

// run runs the command in a process of its own, with more environment.
func (d disturbed) run(t *testing.T, env ...string) (state syscall.WaitStatus, output string) {
	t.Helper()
	cmd, out := exec.Command(os.Args[0], d.args...), &printed{}
	cmd.Env = append(append(os.Environ(), recordedFolder+"="+d.root), env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if e := (*exec.ExitError)(nil); err != nil && !errors.As(err, &e) {
		t.Fatal(err)
	}
	return cmd.ProcessState.Sys().(syscall.WaitStatus), out.String()
}

// recorded is an undisturbed run of a command.
type recorded struct {
	log       *powerfail.Log
	want, old string // checksums of its result, and of that before it
}

// allRecorded has the runs by name of their command.
var allRecorded = map[string]recorded{}

// record runs the command undisturbed, once.
func (d disturbed) record(t *testing.T) recorded {
	t.Helper()
	if r, ok := allRecorded[d.name]; ok {
		return r
	}
	if err := d.before.WriteTo(d.root); err != nil {
		t.Fatal(err)
	}
	r := recorded{log: &powerfail.Log{}}
	if d.before != nil {
		r.old = d.done(t)
	}
	path := filepath.Join(t.TempDir(), "log.json")
	if state, out := d.run(t, recordingFile+"="+path); state.ExitStatus() != 0 {
		t.Fatalf("%q: exit %d: %s", d.args, state.ExitStatus(), out)
	}
	text, err := os.ReadFile(path)
	if err := errors.Join(err, json.Unmarshal(text, r.log)); err != nil {
		t.Fatal(err)
	}
	if r.want = d.done(t); r.want == "" || r.want == r.old {
		t.Fatalf("no result, or the old one: %q", r.want)
	}
	allRecorded[d.name] = r
	return r
}

// check checks what a kill or a power failure has left, runs the command again and compares its result with that of an
// undisturbed run.
func (d disturbed) check(t *testing.T, what string, r recorded) (ok bool) {
	t.Helper()
	left, err := powerfail.ReadTree(d.root)
	if err != nil {
		t.Fatal(err)
	}
	ok = true
	failed := func(format string, args ...any) bool {
		ok = false
		t.Errorf("%s, %s: %s\nleft: %q", d.name, what, fmt.Sprintf(format, args...), slices.Sorted(maps.Keys(left)))
		return false
	}
	got := d.done(t)
	units := []string{got}
	if d.parts {
		units = strings.SplitAfter(got, "\n")
	}
	for _, unit := range units {
		if unit != r.want && unit != r.old && !(d.parts && strings.Contains(r.want, unit)) && (unit != "" || d.keeps) {
			return failed("the output is neither old nor new:\n%s\nwant\n%s", unit, r.want)
		}
	}
	code, stdout, stderr := call(t, d.args...)
	if code != exit.OK {
		return failed("the next run: exit %d: %s%s", code, stdout, stderr)
	}
	if got := d.done(t); got != r.want {
		return failed("the next run gave\n%s\nwant\n%s", got, r.want)
	}
	err = filepath.WalkDir(d.root, func(path string, _ fs.DirEntry, err error) error {
		if n := filepath.Base(path); strings.Contains(n, ".lock") || strings.Contains(n, ".partial-") {
			failed("%s remains", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// cutPower cuts the power of the command n times at random moments. It returns the number of different states of the disk, and
// false if one of them was wrong.
func (d disturbed) cutPower(t *testing.T, seed uint64, n int) (cuts int, ok bool) {
	t.Helper()
	r := d.record(t)
	for _, s := range r.log.Sample(seed, n) {
		if err := s.Tree.WriteTo(d.root); err != nil {
			t.Fatal(err)
		}
		cuts++
		if !d.check(t, fmt.Sprintf("seed %d, %s, after%s", seed, s, r.log.Last(s.Point)), r) {
			return cuts, false
		}
	}
	return cuts, true
}

// cutAtEnd cuts the power in all ways at the end of the command, where the result must be there.
func (d disturbed) cutAtEnd(t *testing.T, seed uint64) {
	t.Helper()
	r := d.record(t)
	for s := range r.log.Final(seed, 2) {
		if err := s.Tree.WriteTo(d.root); err != nil {
			t.Fatal(err)
		}
		if got := d.done(t); got != r.want {
			t.Errorf("%s: the result was lost:\n%s\nwant\n%s", s, got, r.want)
		}
	}
}

// kill kills the command n times after random operations.
func (d disturbed) kill(t *testing.T, seed uint64, n int) (kills int, ok bool) {
	t.Helper()
	recorded := d.record(t)
	l := recorded.log
	r := rand.New(rand.NewPCG(seed, 23))
	for range n {
		if err := d.before.WriteTo(d.root); err != nil {
			t.Fatal(err)
		}
		at := 1 + r.IntN(len(l.Ops))
		state, out := d.run(t, fmt.Sprintf("%s=%d", killedAfter, at))
		if !state.Signaled() || state.Signal() != syscall.SIGKILL {
			t.Logf("%s was not killed after operation %d: exit %d: %s", d.name, at, state.ExitStatus(), out)
			continue
		}
		kills++
		if !d.check(t, fmt.Sprintf("seed %d, killed after operation %d:%s", seed, at, l.Last(at)), recorded) {
			return kills, false
		}
	}
	return kills, true
}

// TestFault23: a command is killed after any operation on files. What it has left is old, new or absent, and the next run
// needs no help and gives the result of an undisturbed run.
func TestFault23(t *testing.T) {
	seed := testseed.Of(t)
	for _, d := range disturbances(t) {
		t.Run(d.name, func(t *testing.T) {
			if n, _ := d.kill(t, seed, 1); n == 0 {
				t.Error("not killed")
			}
		})
	}
}

// TestFault24Events: after a power failure in a training the log has all events of the steps before the checkpoint that is kept.
func TestFault24Events(t *testing.T) {
	seed := testseed.Of(t)
	l := disturbances(t)[0].record(t).log
	dir := t.TempDir()
	events := func(tree powerfail.Tree) []rundir.Event {
		if err := os.WriteFile(filepath.Join(dir, rundir.EventsFile), tree["run/"+rundir.EventsFile], 0o644); err != nil {
			t.Fatal(err)
		}
		all, _ := rundir.ReadEvents(dir) // a last line may be incomplete
		return all
	}
	key := func(e rundir.Event) string { return fmt.Sprint(e.Kind, e.Step, e.Epoch) }
	var all []rundir.Event
	for s := range l.Final(seed, 0) {
		all = events(s.Tree)
		break
	}
	compared := 0
	for _, s := range l.Sample(seed, 300) {
		var kept uint64
		if _, err := fmt.Sscanf(string(s.Tree["run/checkpoints/LATEST"]), "step-%d", &kept); err != nil {
			continue
		}
		var have []string
		for _, e := range events(s.Tree) {
			have = append(have, key(e))
		}
		for _, e := range all {
			if e.Step >= kept {
				continue
			}
			if compared++; !slices.Contains(have, key(e)) {
				t.Fatalf("seed %d, %s: the checkpoint of step %d is there, the event %s is not: %q", seed, s, kept, key(e), have)
			}
		}
	}
	if compared == 0 {
		t.Error("no event was before a checkpoint")
	}
}

// TestFault24: the power fails after any operation on files. The same holds; what a command reported as finished is there.
func TestFault24(t *testing.T) {
	seed := testseed.Of(t)
	for _, d := range disturbances(t) {
		t.Run(d.name, func(t *testing.T) {
			d.cutPower(t, seed, 2)
			d.cutAtEnd(t, seed)
		})
	}
}
