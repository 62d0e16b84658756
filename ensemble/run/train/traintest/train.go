package traintest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// TrainedRun returns the directory of a small finished run that tests share.
func TrainedRun(t *testing.T) string {
	t.Helper()
	f := demotest.Files(t)
	dir := filepath.Join(filepath.Dir(f.GRIB2[0]), "trained")
	if _, err := train.Run(context.Background(), train.Options{Config: demotest.Config(t, f, "train.networks=2", "train.epochs=2", "baselines=[climatology, emos, emos_grid]"), RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Train trains a configuration and returns the run directory.
func Train(t *testing.T, c *config.TrainConfig) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// CheckLossesOnMeshes compares the losses of trainings on meshes with those on one rank. Each training is a list of
// overrides.
func CheckLossesOnMeshes(t *testing.T, trainings ...[]string) {
	t.Helper()
	f := demotest.Files(t)
	for i, set := range trainings {
		var first []float64
		for _, mesh := range []string{"auto", ""} {
			runDir := filepath.Join(t.TempDir(), "run")
			c := demotest.Config(t, f, append(set, "train.epochs=1", "model.dropout=0", "baselines=[emos]", "data.split.fractions.train=0.4", "data.split.fractions.validation=0.5")...)
			if mesh != "" {
				c.Train.Train.Mesh = mesh
			}
			if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: runDir, Version: "test"}); err != nil {
				t.Fatalf("%q %s: %v", set, mesh, err)
			}
			got := runtest.Losses(t, runDir)
			if mesh == "auto" {
				first = got
			}
			for k := range first {
				if !(math.Abs(got[k]-first[k]) < 1e-4*math.Abs(first[k])) {
					t.Errorf("case %d, step %d: loss %v, on one part %v", i, k+1, got[k], first[k])
				}
			}
		}
	}
}

// TrainOnProcesses trains on n processes, each with its ranks of the mesh. Several processes are
// emulated by ranks of this one. options returns those of each process.
func TrainOnProcesses(t *testing.T, n int, options func(process int) train.Options) error {
	t.Helper()
	if n == 1 {
		_, err := train.Run(context.Background(), options(0))
		return err
	}
	return comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
		o := options(c.Rank())
		size, err := setup.HostedRanks(o.Config, n)
		if err != nil {
			return err
		}
		return team.RunHostedRanks(c, size, func(c *comm.Comm) error {
			ranks := team.New(c)
			_, err := train.RunRank(context.Background(), o.ForRank(ranks), ranks)
			return err
		})
	})
}

// ProcessCounts is a training whose result must not depend on the number of processes.
type ProcessCounts struct {
	Mesh string // "" with a pipeline in Overrides
	// Processes lists runs by their numbers of processes: each run starts on the first number, is stopped after
	// two steps, and resumes on the next number.
	Processes [][]int
	Overrides []string // overrides in addition to dropout, random members, validation and test samples
}

// CheckProcessCounts compares a training on processes with one on a process for each rank of the mesh or pipeline: weights,
// moments and best weights by the bytes of the last checkpoint, and the losses of all steps.
func CheckProcessCounts(t *testing.T, all []ProcessCounts) {
	f := demotest.Files(t)
	for _, k := range all {
		t.Run(fmt.Sprint(k.Mesh, k.Overrides), func(t *testing.T) {
			dirs := t.TempDir()
			options := func(dir string, more ...string) train.Options {
				set := slices.Concat([]string{"train.networks=1", "train.epochs=2", "train.mesh=" + cmp.Or(k.Mesh, "auto")}, k.Overrides, more)
				return train.Options{Config: demotest.Config(t, f, set...), RunDir: filepath.Join(dirs, dir), Version: "test", Resume: "auto"}
			}
			size, err := setup.HostedRanks(options("").Config, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := TrainOnRanks(size, func(int) train.Options { return options("ranks") }); err != nil {
				t.Fatal(err)
			}
			want, steps := runtest.Digest(t, filepath.Join(dirs, "ranks")), runtest.Losses(t, filepath.Join(dirs, "ranks"))
			for _, processes := range k.Processes {
				dir := fmt.Sprint(processes)
				for leg, n := range processes {
					err := TrainOnProcesses(t, n, func(process int) train.Options {
						o := options(dir, fmt.Sprint("train.threads=", size)) // one thread per part or more
						asked := 0
						o.Stop = func() error { // only the last process gets the stop request
							if asked++; leg < len(processes)-1 && process == n-1 && asked == 3 {
								return &exit.Error{Code: exit.SaveAndStop, What: "stop requested"}
							}
							return nil
						}
						return o
					})
					if leg < len(processes)-1 && exit.CodeOf(err) == exit.SaveAndStop {
						continue
					}
					if err != nil || leg < len(processes)-1 {
						t.Fatalf("%d of %v processes: %v", n, processes, err)
					}
				}
				if got := runtest.Losses(t, filepath.Join(dirs, dir)); !slices.Equal(got, steps) {
					t.Errorf("%v processes: losses %v, on %d ranks %v", processes, got, size, steps)
				}
				if runtest.Digest(t, filepath.Join(dirs, dir)) != want {
					t.Errorf("%v processes: other weights than on %d ranks", processes, size)
				}
			}
		})
	}
}

// TrainOnRanks trains on ranks of this process; options returns those of each rank.
func TrainOnRanks(n int, options func(rank int) train.Options) error {
	return comm.Run(n, comm.Parallel, func(c *comm.Comm) error {
		_, err := train.RunRank(context.Background(), options(c.Rank()), team.New(c))
		return err
	})
}

// UpdateModelChecksum updates the model checksum in the manifest of a run whose model a test changed.
func UpdateModelChecksum(t *testing.T, runDir string) {
	t.Helper()
	m, err := rundir.ReadManifest(runDir)
	runtest.Must(t, err)
	m.ModelChecksum, err = trained.ModelChecksum(filepath.Join(runDir, "model"))
	runtest.Must(t, err)
	runtest.Must(t, rundir.View(runDir).WriteManifest(*m, nil))
}

// CheckResume trains once without interruption, and once stopped after each number of batches and
// resumed. It compares the models and returns the directory of the uninterrupted run.
func CheckResume(t *testing.T, c *config.TrainConfig, after ...int) (whole string) {
	t.Helper()
	whole = filepath.Join(t.TempDir(), "whole")
	if _, err := train.Run(context.Background(), train.Options{Config: c, RunDir: whole, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	parts := filepath.Join(t.TempDir(), "parts")
	stops := 0
	for _, left := range append(after, 1<<30) {
		_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: parts, Resume: "auto", Version: "test", Stop: func() error {
			if left == 0 {
				return stopped
			}
			left--
			return nil
		}})
		if errors.Is(err, stopped) {
			stops++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if stops != len(after) {
		t.Fatalf("stopped %d times, want %d", stops, len(after))
	}
	a, b := runtest.ModelFiles(t, whole), runtest.ModelFiles(t, parts)
	for name, text := range a {
		if !bytes.Equal(text, b[name]) {
			t.Errorf("%s differs between the whole and the resumed run", name)
		}
	}
	return whole
}

// CheckKernelTimings checks a training of some steps: a run without kernel timings, a run that measures them, and a
// run stopped after half of them and resumed without the table of timings end with the same bits. It returns their
// digest.
func CheckKernelTimings(t *testing.T, c *config.TrainConfig, steps uint64) string {
	t.Helper()
	train := func(dir string, timings setup.Timings, stop func() error) error {
		_, err := train.Run(context.Background(), train.Options{Config: c, RunDir: dir, Resume: "auto", Version: "test", Timings: timings, Stop: stop})
		return err
	}
	plain, timed, parts := filepath.Join(t.TempDir(), "plain"), filepath.Join(t.TempDir(), "timed"), filepath.Join(t.TempDir(), "parts")
	if err := train(plain, setup.Timings{}, nil); err != nil {
		t.Fatal(err)
	}
	cache := setup.Timings{Dir: t.TempDir()}
	if err := train(timed, cache, nil); err != nil {
		t.Fatal(err)
	}
	if got := runtest.NewestCheckpoint(t, plain).Step; got != steps {
		t.Fatalf("%d steps, want %d", got, steps)
	}
	table := func() string {
		files, err := filepath.Glob(filepath.Join(cache.Dir, "timings-*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("tables of timings: %q, %v", files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil || strings.Count(string(text), `"wino forward`) == 0 || strings.Count(string(text), `"wino filter`) == 0 {
			t.Fatalf("nothing was timed (%v):\n%s", err, text)
		}
		return files[0]
	}
	table()
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	left := int(steps / 2)
	if err := train(parts, cache, func() error {
		if left--; left < 0 {
			return stopped
		}
		return nil
	}); !errors.Is(err, stopped) {
		t.Fatal(err)
	}
	if step := runtest.NewestCheckpoint(t, parts).Step; step != steps/2 {
		t.Fatalf("stopped at step %d, want %d", step, steps/2)
	}
	if err := os.Remove(table()); err != nil {
		t.Fatal(err)
	}
	if err := train(parts, cache, nil); err != nil {
		t.Fatal(err)
	}
	table() // measured again
	want := runtest.Digest(t, plain)
	for name, dir := range map[string]string{"a run that measures": timed, "a run resumed without its table": parts} {
		if got := runtest.Digest(t, dir); got != want {
			t.Errorf("%s ends with %s, want %s", name, got, want)
		}
	}
	return want
}
