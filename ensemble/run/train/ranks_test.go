package train_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/faultfs"
	"github.com/ensemble-weather/ensemble/internal/mllog"
	"github.com/ensemble-weather/ensemble/internal/mllog/mllogtest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// ranksOfMesh are the ranks of a mesh.
type ranksOfMesh struct {
	ranks int
	mesh  string
}

// On every kind of mesh a training takes the steps of a single rank, with dropout, validation and accumulated
// batches, and leaves one run: statistics and baselines with the same bits, and nearly equal scores.
func TestTrainOnRanks(t *testing.T) { checkTrainOnRanks(t, 3) }

// checkTrainOnRanks takes n cases, which the seed selects.
func checkTrainOnRanks(t *testing.T, n int) {
	f := demotest.Files(t)
	alone := filepath.Join(t.TempDir(), "alone")
	set := []string{"train.networks=1", "train.epochs=3", "train.accumulate=2", "data.standardise=las", "data.las.window=3", "data.las.smooth=2",
		"baselines=[emos, emos_point, mbm, climatology]"}
	if _, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, set...), RunDir: alone, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want, files := runtest.Losses(t, alone), runtest.ModelFiles(t, alone)
	scores, err := trained.ReadScores(alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range testseed.Some(t, []ranksOfMesh{{2, ""}, {3, "lon:3"}, {4, "data:2 lat:2"}, {2, "data:2"}, {4, "level:2 lon:2"}, {3, "lon:3@2x32x64=lon,2x16x32=lat"}, {2, "lat:2@2x32x64=none"}}, n) {
		t.Run(fmt.Sprintf("%d ranks, mesh %q", c.ranks, c.mesh), func(t *testing.T) {
			runDir := filepath.Join(t.TempDir(), "run")
			err := traintest.TrainOnRanks(c.ranks, func(int) train.Options {
				o := train.Options{RunDir: runDir, Version: "test", Config: demotest.Config(t, f, set...)}
				o.Config.Train.Train.Mesh = c.mesh
				return o
			})
			if err != nil {
				t.Fatal(err)
			}
			got := runtest.Losses(t, runDir)
			if len(got) != len(want) {
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-4*math.Abs(want[i]) {
					t.Fatalf("step %d: loss %v, on one rank %v", i+1, got[i], want[i])
				}
			}
			made := runtest.ModelFiles(t, runDir)
			for _, name := range []string{"model.json", "arrays.safetensors", "baselines.safetensors"} {
				if string(made[name]) != string(files[name]) {
					t.Errorf("%s differs", name)
				}
			}
			r, err := trained.ReadScores(runDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range scores.Scores {
				s := r.Find(w.ID, w.System, w.Variable, w.Level, w.Lead)
				far := 1e-12 // for scores that do not depend on the network
				if w.System == scoring.SystemNetwork {
					far = 1e-2
				}
				if s == nil || math.Abs(float64(s.Value-w.Value)) > far*(1+math.Abs(float64(w.Value))) {
					t.Errorf("%s of %s: %v, on one rank %v", w.ID, w.System, s, w.Value)
				}
			}
			if show, err := scoring.LoadExample(runDir); err != nil || show == nil {
				t.Errorf("the example for the report: %v, %v", show, err)
			}
		})
	}
}

// Ranks that share the fits of two targets on two levels, and of the reference in each fold, leave the files and warnings of
// one rank.
func TestBaselinesOnRanks(t *testing.T) { checkBaselinesOnRanks(t, 1) }

// checkBaselinesOnRanks takes n cases, which the seed selects.
func checkBaselinesOnRanks(t *testing.T, n int) {
	f := demotest.Files(t)
	set := []string{"train.networks=1", "train.epochs=1", "baselines=[emos, emos_grid, emos_point, mbm, quantile_map, climatology]", "model.reference=emos_grid",
		"model.cross_fit.folds=4", "model.cross_fit.gap=0h", "data.split.fractions.train=0.8", "data.split.fractions.validation=0.1", "data.targets=[{variable: t, levels: [850hPa]}, {variable: gh, levels: [500hPa]}]"}
	leaves := func(ranks int, mesh string) (map[string][]byte, []string) {
		runDir := filepath.Join(t.TempDir(), "run")
		err := traintest.TrainOnRanks(ranks, func(int) train.Options {
			o := train.Options{RunDir: runDir, Version: "test", Config: demotest.Config(t, f, set...)}
			o.Config.Train.Train.Mesh = mesh
			return o
		})
		if err != nil {
			t.Fatalf("%d ranks, mesh %q: %v", ranks, mesh, err)
		}
		m, err := rundir.ReadManifest(runDir)
		if err != nil {
			t.Fatal(err)
		}
		return runtest.ModelFiles(t, runDir), m.Warnings
	}
	want, warnings := leaves(1, "")
	if len(want["reference.safetensors"]) == 0 || len(warnings) == 0 {
		t.Fatalf("nothing to compare: %d bytes of reference, warnings %q", len(want["reference.safetensors"]), warnings)
	}
	for _, c := range testseed.Some(t, []ranksOfMesh{{2, "lon:2"}, {3, "lat:3"}, {4, "data:2 lat:2"}, {4, "level:2 lon:2"}}, n) {
		got, warned := leaves(c.ranks, c.mesh)
		for _, name := range []string{"model.json", "arrays.safetensors", "baselines.safetensors", "reference.safetensors"} {
			if len(got[name]) == 0 || string(got[name]) != string(want[name]) {
				t.Errorf("mesh %s: %s differs", c.mesh, name)
			}
		}
		if !slices.Equal(warned, warnings) {
			t.Errorf("mesh %s: warnings %q, on one rank %q", c.mesh, warned, warnings)
		}
	}
}

// Ranks with another configuration, and meshes with another number of ranks, are refused before the first
// step.
func TestRanksMustAgree(t *testing.T) {
	f := demotest.Files(t)
	for _, c := range []struct {
		name string
		set  func(rank int) string
		code exit.Code
	}{
		{"another seed", func(r int) string { return fmt.Sprint("train.seed=", r) }, exit.Usage},
		{"another mesh", func(int) string { return "train.mesh=lon:3" }, exit.Usage},
		{"no mesh", func(int) string { return "train.mesh=east:2" }, exit.Usage},
		// only rank 0 detects this
		{"a window that is too large", func(int) string { return "data.las.window=99" }, exit.BadData},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := traintest.TrainOnRanks(2, func(r int) train.Options {
			return train.Options{Config: demotest.Config(t, f, c.set(r), "data.standardise=las"), RunDir: runDir, Version: "test"}
		})
		if exit.CodeOf(err) != c.code || !team.IsAgreed(err) {
			t.Errorf("%s: %v, want exit code %d", c.name, err, c.code)
		}
	}
	// With several ranks per process the error names the processes.
	err := traintest.TrainOnProcesses(t, 2, func(process int) train.Options {
		return train.Options{Config: demotest.Config(t, f, "train.mesh=lon:4", fmt.Sprint("train.seed=", process)), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}
	})
	if exit.CodeOf(err) != exit.Usage || !team.IsAgreed(err) || !strings.Contains(err.Error(), "ranks [1] differ from rank 0") || !strings.Contains(err.Error(), `rank 0 has "seed: 0", rank 1 has "seed: 1"`) {
		t.Errorf("two processes of two parts: %v", err)
	}
}

// The log of a timed training on ranks names ranks, processes, mesh and threads. Epoch events have the sums of what ranks
// counted, the means of times, and the extremes with their ranks.
func TestRecordsOfRanks(t *testing.T) {
	f := demotest.Files(t)
	dir := t.TempDir()
	log, runDir := filepath.Join(dir, "mllog.txt"), filepath.Join(dir, "run")
	if err := traintest.TrainOnRanks(2, func(int) train.Options {
		return train.Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=2", "train.mesh=lon:2", "train.threads=2"), RunDir: runDir, Version: "test",
			Timing: quality.Options{Log: log, Benchmark: "ensemble_test", Target: 1e-9}}
	}); err != nil {
		t.Fatal(err)
	}
	mllogtest.Check(t, log)
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	logged, err := mllog.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range logged {
		got[e.Key] = fmt.Sprint(e.Value) + fmt.Sprint(e.Metadata)
	}
	for key, want := range map[string]string{"number_of_ranks": "2map[processes:2]", "number_of_nodes": "1map[]", "mesh": "lon:2map[]", "number_of_threads": "2map[all_ranks:4 of:each rank]"} {
		if got[key] != want {
			t.Errorf("the log has %s %s, want %s", key, got[key], want)
		}
	}
	events, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	epochs := 0
	for _, e := range events {
		if e.Kind != "epoch" {
			continue
		}
		epochs++
		var extremes map[string]team.Total
		text, err := json.Marshal(e.Values["extremes"])
		if err := errors.Join(err, json.Unmarshal(text, &extremes)); err != nil {
			t.Fatal(err)
		}
		sent, ok := e.Number("sent_bytes")
		x := extremes["sent_bytes"]
		if !ok || sent != x.Min+x.Max || x.Min <= 0 {
			t.Errorf("the ranks sent %v bytes, extremes %+v", sent, x)
		}
		steps, _ := e.Number("steps_s")
		if x := extremes["steps_s"]; steps < x.Min || steps > x.Max || x.Min <= 0 {
			t.Errorf("steps took %v s, extremes %+v", steps, x)
		}
	}
	if epochs != 2 {
		t.Errorf("%d epochs", epochs)
	}
}

// Meshes that do not fit batch or fields are refused by all ranks together, without a run directory, and what the error
// says to give trains.
func TestMeshesThatDoNotFit(t *testing.T) {
	meshesThatDoNotFit(t, []misfit{
		{"level:3", "3 ranks along level, but the fields have 2 levels", "level:2"},
		{"data:5", "5 ranks along data, but a batch has 4 samples", "data:4"},
		{"data:300", "300 ranks along data, but a batch has 4 samples", "data:4"},
		{"channel:3", "3 ranks along channel", "auto"},
		{"lat:2@2x9x9=none", "fields of 2x9x9, which the network does not have", "lat:2"},
		{"lat:257", "has 257 ranks, 1 process can host 256", "auto"},
	})
}

// misfit is a mesh, why it does not fit, and what the error says to give.
type misfit struct{ mesh, what, instead string }

func meshesThatDoNotFit(t *testing.T, meshes []misfit) {
	f := demotest.Files(t)
	for _, c := range meshes {
		runDir := filepath.Join(t.TempDir(), "run")
		run := func(mesh string) error {
			c := demotest.Config(t, f, "train.networks=1", "train.epochs=1")
			c.Train.Train.Mesh = mesh
			_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"})
			return err
		}
		err := run(c.mesh)
		var e *exit.Error
		if !errors.As(err, &e) || e.Code != exit.Usage || !strings.Contains(e.What, c.what) || !strings.HasPrefix(e.At, "train.mesh") || !strings.Contains(e.Fix, fmt.Sprintf("--set %q", "train.mesh="+c.instead)) {
			t.Errorf("%s: %v, want %q and %q", c.mesh, err, c.what, c.instead)
		}
		if _, err := os.Stat(runDir); err == nil {
			t.Errorf("%s: a run directory was made", c.mesh)
		}
		if c.instead == "lat:2" {
			if err := run(c.instead); err != nil {
				t.Errorf("%s in place of %s: %v", c.instead, c.mesh, err)
			}
		}
	}
}

// If one rank receives a request to stop, all save and stop. A resumed run takes the steps of an
// uninterrupted one.
func TestRanksStopAndResume(t *testing.T) {
	f := demotest.Files(t)
	set := []string{"train.networks=1", "train.epochs=3", "train.mesh=lon:2"}
	whole, runDir := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "run")
	options := func(dir string) train.Options {
		return train.Options{Config: demotest.Config(t, f, set...), RunDir: dir, Version: "test", Resume: "auto"}
	}
	if err := traintest.TrainOnRanks(2, func(int) train.Options { return options(whole) }); err != nil {
		t.Fatal(err)
	}
	m, err := rundir.ReadManifest(whole)
	if err != nil {
		t.Fatal(err)
	}
	if compared, ok := m.Details["ranks"].(map[string]any); !ok || compared["ranks"] != 2.0 || compared["mesh"] != "lon:2" || len(compared["same"].(map[string]any)) < 6 || len(compared["not_compared"].([]any)) != 3 {
		t.Errorf("the manifest records %v of the ranks", m.Details["ranks"])
	}
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
	err = traintest.TrainOnRanks(2, func(rank int) train.Options {
		o := options(runDir)
		steps := 0
		o.Stop = func() error {
			if steps++; rank == 1 && steps == 5 {
				return stopped
			}
			return nil
		}
		return o
	})
	if exit.CodeOf(err) != exit.SaveAndStop {
		t.Fatalf("stopped with %v", err)
	}
	if err := traintest.TrainOnRanks(2, func(int) train.Options { return options(runDir) }); err != nil {
		t.Fatal(err)
	}
	if runtest.Digest(t, runDir) != runtest.Digest(t, whole) {
		t.Error("the resumed run ends with other weights")
	}
}

// A checkpoint for which the disk has no room when a stop is requested ends all ranks with 74: none promises that the state was saved. The
// run goes on from its begin, and its log has each step once.
func TestStopWithoutCheckpoint(t *testing.T) {
	f := demotest.Files(t)
	dirs := t.TempDir()
	options := func(dir string) train.Options {
		return train.Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=1"), RunDir: dir, Version: "test", Resume: "auto"}
	}
	whole, runDir := filepath.Join(dirs, "whole"), filepath.Join(dirs, "full")
	runtest.Must(t, traintest.TrainOnRanks(2, func(int) train.Options { return options(whole) }))
	_, restore := faultfs.Use(faultfs.Fault{N: 1, Times: -1, Of: []faultfs.Kind{faultfs.Write}, Err: unix.ENOSPC,
		At: func(o faultfs.Operation) bool { return strings.Contains(o.Path, "checkpoints") }})
	defer restore()
	var ends [2]error
	err := comm.Run(2, comm.Parallel, func(c *comm.Comm) error {
		o, batches := options(runDir), 0
		o.Stop = func() error {
			if batches++; batches == 3 {
				return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
			}
			return nil
		}
		_, ends[c.Rank()] = train.RunRank(t.Context(), o, team.New(c))
		return ends[c.Rank()]
	})
	restore()
	for rank, e := range append(ends[:], err) {
		if exit.CodeOf(e) != exit.IO {
			t.Errorf("rank %d, or the job: %v", rank, e)
		}
	}
	runtest.Must(t, traintest.TrainOnRanks(2, func(int) train.Options { return options(runDir) }))
	if runtest.Digest(t, runDir) != runtest.Digest(t, whole) {
		t.Error("the run ends with other weights")
	}
	if got, want := runtest.Losses(t, runDir), runtest.Losses(t, whole); !slices.Equal(got, want) {
		t.Errorf("losses %v, want %v", got, want)
	}
}

// Ranks with a sharded optimiser take the steps of ranks without, bit by bit, with gathered gradients,
// clipping and averaged weights. Their checkpoints are valid for any number of ranks.
func TestFault28OtherRanks(t *testing.T) {
	f := demotest.Files(t)
	options := func(dir string, more ...string) train.Options {
		set := append([]string{"train.networks=1", "train.epochs=3", "train.ema=0.5", "train.clip=0.05", "train.accumulate=2", "train.optimizer=lamb"}, more...)
		return train.Options{Config: demotest.Config(t, f, set...), RunDir: dir, Version: "test", Resume: "auto"}
	}
	dirs := t.TempDir()
	whole := filepath.Join(dirs, "whole")
	if err := traintest.TrainOnRanks(3, func(int) train.Options { return options(whole) }); err != nil {
		t.Fatal(err)
	}
	sharded := filepath.Join(dirs, "sharded")
	if err := traintest.TrainOnRanks(3, func(int) train.Options { return options(sharded, "train.shard_optimizer=true") }); err != nil {
		t.Fatal(err)
	}
	if runtest.Digest(t, sharded) != runtest.Digest(t, whole) {
		t.Error("the sharded optimiser ends with other weights")
	}
	want := runtest.Losses(t, whole)
	runDir, ranks := filepath.Join(dirs, "moved"), []int{4, 3, 1, 2}
	for part, n := range ranks {
		last := part == len(ranks)-1
		err := traintest.TrainOnRanks(n, func(int) train.Options {
			o := options(runDir, fmt.Sprint("train.shard_optimizer=", n > 1))
			batches := 0
			o.Stop = func() error {
				if batches++; !last && batches == 4 { // behind a step, and within one
					return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
				}
				return nil
			}
			return o
		})
		if code := exit.CodeOf(err); !last && code != exit.SaveAndStop || last && err != nil {
			t.Fatalf("%d ranks of %v: %v", n, ranks, err)
		}
	}
	got := runtest.Losses(t, runDir)
	if len(got) != len(want) {
		events, err := os.ReadFile(filepath.Join(runDir, rundir.EventsFile))
		t.Fatalf("ranks %v: %d steps, want %d; %v\n%s", ranks, len(got), len(want), err, events)
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4*math.Abs(want[i]) {
			t.Fatalf("ranks %v, step %d: loss %v, want %v", ranks, i+1, got[i], want[i])
		}
	}
}
