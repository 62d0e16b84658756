package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/powerfail"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// writer is a command that writes a directory.
type writer struct {
	name string
	args []string
	out  string
	in   []string // what the files that it computes from begin with
	// product lists the names, below out, of what must stay whole: the old one, or the new one. They are the files that
	// the pattern matches and those below.
	product string
	last    string // file of it that is written last; "": manifest.json
	// before is the output that the command finds each time; nil: that of the run before.
	before powerfail.Tree
}

// allWriters are made by the first test that needs them. Tests of this package do not run at the same time.
var allWriters []writer

// writers returns the commands that write most. Their output exists already, and they replace it. One processor makes the order
// of their operations the same each time.
func writers(t *testing.T) []writer {
	t.Helper()
	f := shared(t, "writers")
	oneProcessor(t)
	if allWriters == nil {
		allWriters = makeWriters(f)
	}
	return allWriters
}

func makeWriters(t *trial) []writer {
	t.Helper()
	dir := func(name string) string { return filepath.Join(t.dir, name) }
	input := t.put("in.grib2", join(cycle(lastDay)...))
	truth := t.put("an.grib2", join(cycle(lastDay.AddDate(0, 0, 2))[:perMember]...))
	samples, forecasts := t.prepared(), filepath.Join(filepath.Dir(t.config), "fc_")
	common := []string{"--progress", "none"}
	prepare := func(config string) []string {
		return append([]string{"data", "prepare", "-c", config, "--out", filepath.Join(dir("stores"), "store"), "--overwrite", "always"}, common...)
	}
	all := []writer{
		{name: "predict", args: append([]string{"predict", "--run-dir", t.run, "--input", input, "--out", dir("products"), "--format", "netcdf,grib2,zarr", "--threads", "1", "--overwrite", "always"}, common...), out: dir("products"), in: []string{input, filepath.Join(t.run, "model")}, product: "2*"},
		{name: "train", args: append([]string{"train", "-c", t.config, "--set", "data.store=" + samples, "--run-dir", dir("run"), "--overwrite", "always"}, common...), out: dir("run"), in: []string{samples, forecasts}},
		{name: "data prepare", args: prepare(t.smallArchive(3)), out: dir("stores"), in: []string{forecasts}, product: "store", last: "store.json"},
		{name: "verify", args: append([]string{"verify", "--forecast", dir("products") + "/2*/*.zarr", "--analysis", truth, "--members", input, "--out", dir("scores")}, common...), out: dir("scores"), in: []string{dir("products"), truth, input}},
	}
	t.expect(exit.OK, nil, prepare(t.smallArchive(2))...)
	all[2].before = folder(t.T, dir("stores"), "store")
	for _, w := range all {
		t.expect(exit.OK, nil, w.args...)
	}
	return all
}

// oneProcessor makes commands of this process and its children use one processor until the end of the test: they start one
// decoding child each, and do the same in the same order.
func oneProcessor(t *testing.T) {
	t.Helper()
	t.Setenv("GOMAXPROCS", "1")
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// shared returns a folder for several tests, with what none of them changes.
func shared(t *testing.T, name string) *trial {
	t.Helper()
	f := faulty(t)
	f.dir = filepath.Join(os.Getenv("XDG_CACHE_HOME"), name)
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return f
}

// smallArchive returns a configuration of the first initialisations of the training.
func (t *trial) smallArchive(inits int) (config string) {
	t.Helper()
	text, err := os.ReadFile(t.config)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for i := range inits {
		files = append(files, filepath.Join(filepath.Dir(t.config), fmt.Sprintf("fc_%02d.grib2", i)))
	}
	lines := strings.Split(string(text), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "  forecasts:") })
	lines[at] = "  forecasts: [" + strings.Join(files, ", ") + "]"
	return t.put(fmt.Sprintf("archive%d.yaml", inits), []byte(strings.Join(lines, "\n")))
}

// prepared returns a sample store of the files of the configuration, from which trainings start sooner.
func (t *trial) prepared() (store string) {
	t.Helper()
	store = filepath.Join(t.dir, "samples")
	t.expect(exit.OK, nil, "data", "prepare", "-c", t.config, "--out", store, "--progress", "none")
	return store
}

// ready makes the output that the command finds.
func (w writer) ready(t *testing.T) {
	t.Helper()
	if w.before == nil {
		return
	}
	if err := w.before.WriteTo(w.out); err != nil {
		t.Fatal(err)
	}
}

// within selects operations below the output.
func (w writer) within(op faultfs.Operation) bool {
	return strings.HasPrefix(op.Path, w.out)
}

// reads selects operations on the files that the command computes from.
func (w writer) reads(op faultfs.Operation) bool {
	return slices.ContainsFunc(w.in, func(in string) bool { return strings.HasPrefix(op.Path, in) })
}

// points counts the operations of a command that change its output.
func (w writer) points(t *testing.T) int {
	t.Helper()
	w.ready(t)
	s, restore := faultfs.Use(faultfs.Fault{Of: faultfs.Changing, At: w.within})
	defer restore()
	if code, _, stderr := call(t, w.args...); code != exit.OK {
		t.Fatalf("%s: exit %d: %s", w.name, code, stderr)
	}
	return s.Count()
}

// sums lists the files of the product with their checksums.
func (w writer) sums(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	tops, err := filepath.Glob(filepath.Join(w.out, w.product))
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range tops {
		if err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			fmt.Fprintf(&text, "%x %s\n", sha256.Sum256(b), path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

// fault is an error at the n-th operation that changes the output.
func (w writer) fault(n int, errno unix.Errno) faultfs.Fault {
	return faultfs.Fault{N: n, Of: faultfs.Changing, At: w.within, Err: errno}
}

// fail runs the command with the error of the round. done: it has no such operation.
func (w writer) fail(t *testing.T, round *faultfs.Round) (done bool) {
	t.Helper()
	w.ready(t)
	before := w.sums(t)
	round.Part = round.N%2 == 0
	op, err := round.Run(t, func() error {
		code, _, stderr := call(t, w.args...)
		if code == exit.OK {
			return nil
		}
		return &exit.Error{Code: code, Why: stderr}
	})
	if op == nil {
		return true
	}
	stays := err == nil && op.Kind == faultfs.Remove && strings.Contains(op.Path, ".partial-") // a temporary file beside it, or an old one after the exchange, which the next run removes
	if !stays && (exit.CodeOf(err) != exit.IO || !strings.Contains(err.Error(), round.Err.Error()) && !strings.Contains(err.Error(), "no space left")) {
		t.Errorf("%s, %v at operation %d, %s of %s: %v", w.name, round.Err, round.N, op.Kind, op.Path, err)
	}
	if w.product != "" {
		w.old(t, before, *op)
	}
	return false
}

// old compares the product with the one before. After the exchange the new one is in place, which is whole too: it has the file
// that is written last, and the files of its list.
func (w writer) old(t *testing.T, before string, op faultfs.Operation) {
	t.Helper()
	if after := w.sums(t); after != before {
		dirs, _ := filepath.Glob(filepath.Join(w.out, w.product))
		for _, dir := range dirs {
			_, err := checkSums(dir)
			if left, _ := filepath.Glob(filepath.Join(dir, ".*")); left != nil {
				t.Errorf("%s, %s of %s: %q", w.name, op.Kind, op.Path, left)
			}
			if _, none := os.Stat(filepath.Join(dir, cmp.Or(w.last, "manifest.json"))); err != nil || none != nil {
				t.Errorf("%s, %s of %s: %s: %v, %v", w.name, op.Kind, op.Path, dir, err, none)
			}
		}
		if len(dirs) == 0 {
			t.Errorf("%s, %s of %s: no product remains", w.name, op.Kind, op.Path)
		}
	}
}

// TestFault21: a full disk, and TestFault22 a quota or a limit of the size of files, at a sample of the operations that change
// the output. All of them are in TestLongFaults21And22.
func TestFault21(t *testing.T) { failSample(t, unix.ENOSPC, unix.EIO) }

func TestFault22(t *testing.T) { failSample(t, unix.EDQUOT, unix.EFBIG) }

// sampled is the number of operations of each command at which failSample injects each error.
const sampled = 1

func failSample(t *testing.T, errnos ...unix.Errno) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for _, w := range writers(t) {
		n := w.points(t)
		for _, errno := range errnos {
			for range sampled {
				w.fail(t, &faultfs.Round{Fault: w.fault(1+r.IntN(n), errno)})
			}
		}
		if code, _, stderr := call(t, w.args...); code != exit.OK {
			t.Errorf("%s without a fault: exit %d: %s", w.name, code, stderr)
		}
	}
}

// TestFault25: output that cannot be written is reported before any input is opened, which the same command opens without the fault.
func TestFault25(t *testing.T) {
	for _, w := range writers(t) {
		for _, errno := range []unix.Errno{0, unix.EROFS, unix.EACCES} {
			w.ready(t)
			before := w.sums(t)
			fault := faultfs.Fault{Of: faultfs.Changing, At: w.within}
			if errno != 0 {
				fault.N, fault.Times, fault.Err = 1, -1, errno
			}
			_, first := faultfs.Use(fault)
			inputs, second := faultfs.Use(faultfs.Fault{Of: []faultfs.Kind{faultfs.Open}, At: w.reads})
			code, _, stderr := call(t, w.args...)
			second()
			first()
			if errno == 0 {
				if code != exit.OK || inputs.Count() == 0 {
					t.Errorf("%s: exit %d, opened %d inputs: %s", w.name, code, inputs.Count(), stderr)
				}
				continue
			}
			if code != exit.CannotWrite || !strings.Contains(stderr, w.out) || inputs.Count() > 0 {
				t.Errorf("%s, %v: exit %d after opening %d inputs: %s", w.name, errno, code, inputs.Count(), stderr)
			}
			if w.product != "" && w.sums(t) != before {
				t.Errorf("%s, %v: the product was changed", w.name, errno)
			}
		}
	}
}

// TestFault30: without file locks, as on some network file systems, all commands work.
func TestFault30(t *testing.T) {
	for _, errno := range []unix.Errno{unix.ENOLCK, unix.EOPNOTSUPP} {
		all := writers(t)
		s, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Lock}, Err: errno})
		for _, w := range all {
			w.ready(t)
			if code, _, stderr := call(t, w.args...); code != exit.OK {
				t.Errorf("%s, %v: exit %d: %s", w.name, errno, code, stderr)
			}
		}
		restore()
		if len(s.Injected()) == 0 {
			t.Error("no lock was asked for")
		}
	}
}

// TestFault22Limit: a limit of the size of files (ulimit -f), which shared memory has too, is no fault of the data.
func TestFault22Limit(t *testing.T) {
	w := writers(t)[0]
	for _, blocks := range []int{1, 16, 64} { // of 512 bytes or 1 KiB
		before := w.sums(t)
		cmd := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, blocks), "sh", os.Args[0]}, w.args...)...)
		out, err := cmd.CombinedOutput()
		if code := exit.Code(cmd.ProcessState.ExitCode()); err == nil || code != exit.IO || !strings.Contains(string(out), "file too large") {
			t.Errorf("%d blocks: %v, want exit 74: %s", blocks, err, out)
		}
		w.old(t, before, faultfs.Operation{Kind: "limit"})
	}
}
