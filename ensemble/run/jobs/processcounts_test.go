package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
	"github.com/ensemble-weather/ensemble/ensemble/run/predict"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/verify"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	fio "github.com/ensemble-weather/ensemble/io"
	"github.com/ensemble-weather/ensemble/io/product"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// onTestTeams calls f on ranks of this process.
func onTestTeams(n int, mesh string, f func(w team.Teams) error) error {
	return comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
		w, err := team.SplitRanks(c, mesh)
		if err := team.New(c).AgreeOnError(err); err != nil {
			return err
		}
		return f(w)
	})
}

// jobVariable makes this test binary a rank: it holds the job and its options.
const jobVariable = "ENSEMBLE_RUN_TEST_JOB"

// job is the input of a rank under a launcher.
type job struct {
	Predict *predict.Options
	Verify  *verify.Options
	Train   *rankTraining
	Check   *bench.ParallelCheckOptions
}

// runAsRank does a job and prints the result of rank 0.
func runAsRank(text string) exit.Code {
	var j job
	err := json.Unmarshal([]byte(text), &j)
	switch {
	case err != nil:
	case j.Predict != nil:
		_, err = predict.Run(context.Background(), *j.Predict)
	case j.Check != nil:
		err = printCheck(*j.Check)
	case j.Train != nil:
		err = j.Train.run()
	default:
		_, err = verify.Run(context.Background(), *j.Verify)
	}
	if err != nil && !team.IsReportedElsewhere(err) {
		fmt.Fprintln(os.Stderr, err)
	}
	return exit.CodeOf(err)
}

// launchJob does a job on ranks of launchers.
func launchJob(t *testing.T, on launchers, n int, j job, then func(out string, code exit.Code)) {
	t.Helper()
	text, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	on(t, func(t *testing.T, launcher string) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		out, err := mpitest.Command(ctx, t, launcher, n, jobVariable+"="+string(text), "GOMAXPROCS=1").CombinedOutput()
		code := exit.OK
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			code = exit.Code(failed.ExitCode())
		} else if err != nil {
			t.Fatalf("%s: %v", launcher, err)
		}
		then(fmt.Sprintf("%s: exit %d\n%s", launcher, code, out), code)
	})
}

// readTree reads all files below a folder.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameFiles compares two folders byte by byte.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	a, b := readTree(t, got), readTree(t, want)
	if len(b) == 0 {
		t.Fatal("nothing to compare with")
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if x, ok := a[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if x != b[name] {
			t.Errorf("%s differs", name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			t.Errorf("%s should not be there", name)
		}
	}
}

// predictOptions publish the last initialisations of the small data.
func predictOptions(t *testing.T, out string) predict.Options {
	return predict.Options{RunDir: traintest.TrainedRun(t), Input: demotest.Files(t).GRIB2[15:], Out: out, Formats: []product.Format{product.NetCDF, product.GRIB2},
		Version: "test", Command: "test", Threads: 1}
}

// predictOnRanks predicts on ranks of this process.
func predictOnRanks(n int, ctx func(rank int) context.Context, o predict.Options) ([]*predict.Result, error) {
	results := make([]*predict.Result, n)
	return results, onTestTeams(n, o.Mesh, func(w team.Teams) (err error) {
		r := w.All.Comm.Rank()
		results[r], err = predict.RunRank(ctx(r), o, w)
		return err
	})
}

// Products and result do not depend on the number of ranks, byte by byte, even if there are more ranks than
// initialisations.
func TestPredictOnRanks(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	want := t.TempDir()
	o := predictOptions(t, want)
	alone, err := predict.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	relative := func(paths []string, dir string) string {
		return strings.ReplaceAll(strings.Join(paths, "\n"), dir, "")
	}
	for _, n := range []int{2, 7} {
		o.Out = t.TempDir()
		results, err := predictOnRanks(n, runtest.Background, o)
		if err != nil {
			t.Fatalf("%d ranks: %v", n, err)
		}
		sameFiles(t, o.Out, want)
		for r, res := range results {
			if res.Inits != alone.Inits || res.Existing != 0 || relative(res.Outputs, o.Out) != relative(alone.Outputs, want) || !slices.Equal(res.Warnings, alone.Warnings) {
				t.Errorf("rank %d of %d: %+v, alone %+v", r, n, res, alone)
			}
		}
	}
	o.Out = filepath.Join(t.TempDir(), "mpi")
	launchJob(t, onALauncher, 3, job{Predict: &o}, func(out string, code exit.Code) {
		if code != exit.OK {
			t.Error(out)
		}
		sameFiles(t, o.Out, want)
		os.RemoveAll(o.Out)
	})
}

// Ranks that share an initialisation publish the products of one rank up to rounding, and the same bytes for
// any number of such groups.
func TestPredictOnAMesh(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1767225600")
	alone := t.TempDir()
	o := predictOptions(t, alone)
	if _, err := predict.Run(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	dirs := map[int]string{}
	for _, n := range []int{2, 4} {
		o.Out, o.Mesh = t.TempDir(), "lat:2"
		dirs[n] = o.Out
		results, err := predictOnRanks(n, runtest.Background, o)
		if err != nil {
			t.Fatalf("%d ranks: %v", n, err)
		}
		if results[n-1].Inits != 5 || len(results[n-1].Outputs) == 0 {
			t.Errorf("rank %d of %d: %+v", n-1, n, results[n-1])
		}
	}
	sameFiles(t, dirs[4], dirs[2])
	want, got := fieldsBelow(t, alone), fieldsBelow(t, dirs[2])
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d fields, want %d", len(got), len(want))
	}
	for name, x := range want {
		y := got[name]
		for p := range x {
			if d := math.Abs(float64(y[p]) - float64(x[p])); d > 1e-5*math.Abs(float64(x[p]))+1e-5 {
				t.Fatalf("%s, point %d: %g, on one rank %g", name, p, y[p], x[p])
			}
		}
	}
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{3, "lat:2"}, {2, "data:2"}, {2, "east:2"}, {1, "lon:2"}} {
		o.Mesh = c.mesh
		if _, err := predictOnRanks(c.ranks, runtest.Background, o); exit.CodeOf(err) != exit.Usage || !team.IsAgreed(err) && c.ranks > 1 {
			t.Errorf("mesh %q of %d ranks: %v", c.mesh, c.ranks, err)
		}
	}
}

// fieldsBelow reads the NetCDF products below a folder.
func fieldsBelow(t *testing.T, dir string) map[string][]float32 {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*", "*.nc"))
	in, err := fio.Open(context.Background(), files, fio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out := map[string][]float32{}
	entries := in.Catalogue().Entries
	if err := in.Read(context.Background(), entries, func(i int, f *ensemble.Field) error {
		out[fmt.Sprint(entries[i].Key, verify.KindOf(entries[i]))] = f.Values
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// A rank that fails is named, and all ranks return its error, which is that of a single rank. Products
// published before remain.
func TestPredictFailsOnARank(t *testing.T) {
	o := predictOptions(t, "")
	inits := []string{}
	for _, n := range []int{1, 3} {
		o.Out = t.TempDir()
		if n == 1 {
			r, err := predict.Run(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range initDirs(r.Outputs) {
				inits = append(inits, filepath.Base(dir))
			}
			o.Out = t.TempDir()
		}
		// The second and the third initialisation have no manifest.
		for _, i := range []int{1, 2} {
			dir := filepath.Join(o.Out, inits[i])
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if n == 1 {
			_, err = predict.Run(context.Background(), o)
		} else {
			_, err = predictOnRanks(n, runtest.Background, o)
		}
		if exit.CodeOf(err) != exit.CannotWrite || !strings.Contains(err.Error(), inits[1]) {
			t.Errorf("%d ranks: %v", n, err)
		}
		if n > 1 && (!team.IsAgreed(err) || !strings.Contains(err.Error(), inits[1]+" (rank ")) {
			t.Errorf("%d ranks: not named: %v", n, err)
		}
		if _, err := product.ReadManifest(filepath.Join(o.Out, inits[0])); err != nil {
			t.Errorf("%d ranks: the first start: %v", n, err)
		}
		if n == 3 {
			launchJob(t, onALauncher, 3, job{Predict: &o}, func(out string, code exit.Code) {
				if code != exit.CannotWrite || strings.Count(out, "error[E073]") != 1 || !strings.Contains(out, inits[1]+" (rank ") {
					t.Error(out)
				}
			})
		}
	}
}

// One of two ranks has a full disk, or kernels with another instruction set. The first ends both with one message that names the rank;
// the second predicts and warns, with both values.
func TestPredictOnUnlikeRanks(t *testing.T) {
	for _, c := range []struct {
		what     string
		launcher int
		rank1    func(out string) []string
		code     exit.Code
		message  string
	}{
		{"full disk", 0, func(out string) []string {
			return []string{"unshare", "-m", "sh", "-c", fmt.Sprintf("mount -t tmpfs -o size=16k none %s && exec %s", out, os.Args[0])}
		}, exit.IO, "(rank 1)"},
		{"instruction set", 1, func(string) []string { return []string{"env", "ONEDNN_MAX_CPU_ISA=SSE41", os.Args[0]} }, exit.OK, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			o := predictOptions(t, t.TempDir())
			prefix := c.rank1(o.Out)
			if prefix[0] == "unshare" {
				if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", o.Out).CombinedOutput(); err != nil {
					t.Skipf("skipped: no file system of its own for a rank: %v: %s", err, out)
				}
			}
			text, err := json.Marshal(job{Predict: &o})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			cmd := mpitest.Command(ctx, t, mpitest.Path(t, mpitest.Launchers[c.launcher]), 2, jobVariable+"="+string(text), "GOMAXPROCS=1")
			cmd.Args = append([]string{cmd.Path, "-n", "1", os.Args[0], ":", "-n", "1"}, prefix...)
			out, _ := cmd.CombinedOutput()
			if code := exit.Code(cmd.ProcessState.ExitCode()); code != c.code || c.code != exit.OK && strings.Count(string(out), "error[E") != 1 || !strings.Contains(string(out), c.message) {
				t.Errorf("exit %d, want %d and %q once\n%s", code, c.code, c.message, out)
			}
			if c.code != exit.OK {
				return
			}
			manifests, err := filepath.Glob(filepath.Join(o.Out, "*", "manifest.json"))
			if err != nil || len(manifests) == 0 {
				t.Fatalf("no products: %v\n%s", err, out)
			}
			for _, name := range manifests {
				if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "the ranks do not agree: the instruction set: ranks [1] differ from rank 0") || !strings.Contains(string(text), "ONEDNN_MAX_CPU_ISA=SSE41") {
					t.Errorf("%s has no warning: %v\n%s", name, err, text)
				}
			}
		})
	}
}

// initDirs lists the folders of files, each once, in order.
func initDirs(files []string) []string {
	var dirs []string
	for _, f := range files {
		if d := filepath.Dir(f); !slices.Contains(dirs, d) {
			dirs = append(dirs, d)
		}
	}
	return dirs
}

// A signal to one rank stops all; the same command continues.
func TestPredictStopsOnAllRanks(t *testing.T) {
	o := predictOptions(t, t.TempDir())
	stopped, stop := context.WithCancel(context.Background())
	stop()
	_, err := predictOnRanks(2, func(rank int) context.Context {
		if rank == 1 {
			return stopped
		}
		return context.Background()
	}, o)
	if exit.CodeOf(err) != exit.SaveAndStop || !strings.Contains(err.Error(), "rank 1") {
		t.Errorf("stopped with %v", err)
	}
	if _, err := predictOnRanks(2, runtest.Background, o); err != nil {
		t.Error(err)
	}
}

// Verification writes the same bytes for any number of ranks.
func TestVerifyOnRanks(t *testing.T) {
	p := predictOptions(t, t.TempDir())
	if _, err := predict.Run(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	f := demotest.Files(t)
	products, _ := filepath.Glob(filepath.Join(p.Out, "*", "*.nc"))
	want := t.TempDir()
	o := verify.Options{Forecast: products, Analysis: f.Analyses, Members: f.GRIB2, Out: want}
	alone, err := verify.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(alone.Scores.Scores) == 0 || len(alone.Scores.Ranks) == 0 {
		t.Fatalf("nothing is scored: %+v", alone.Scores)
	}
	for _, n := range []int{2, 7} {
		o.Out = t.TempDir()
		if err := onTestTeams(n, "", func(w team.Teams) error {
			r, err := verify.RunRank(context.Background(), o, w)
			if err == nil && (w.All.IsRoot() != (r.Scores != nil) || len(r.Warnings) != len(alone.Warnings)) {
				err = fmt.Errorf("rank %d has %+v", w.All.Comm.Rank(), r)
			}
			return err
		}); err != nil {
			t.Fatalf("%d ranks: %v", n, err)
		}
		sameFiles(t, o.Out, want)
	}
	o.Out = filepath.Join(t.TempDir(), "mpi")
	launchJob(t, onALauncher, 2, job{Verify: &o}, func(out string, code exit.Code) {
		if code != exit.OK {
			t.Error(out)
		}
		sameFiles(t, o.Out, want)
		os.RemoveAll(o.Out)
	})
	// A file that goes bad is found by the rank that has its starts.
	bad := filepath.Join(t.TempDir(), "bad.nc")
	text, err := os.ReadFile(products[4])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, text[:len(text)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	o.Forecast = append(slices.Clone(products[:4]), bad)
	_, found := verify.Run(context.Background(), o)
	err = onTestTeams(3, "", func(w team.Teams) error {
		_, err := verify.RunRank(context.Background(), o, w)
		return err
	})
	if exit.CodeOf(found) != exit.BadData || exit.CodeOf(err) != exit.CodeOf(found) || !team.IsAgreed(err) {
		t.Errorf("bad file: alone %v, on ranks %v", found, err)
	}
}
