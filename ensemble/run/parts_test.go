package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// trainOnProcesses trains on as many processes, each with its parts of the mesh: on this
// one, or on ranks of it that stand for several. options give those of each process.
func trainOnProcesses(t *testing.T, n int, options func(process int) TrainOptions) error {
	t.Helper()
	if n == 1 {
		_, err := Train(context.Background(), options(0))
		return err
	}
	return comm.Run(n, comm.Free, func(c *comm.Comm) error {
		o := options(c.Rank())
		parts, err := partsOf(o.Config.Train.Train.Mesh)
		if err != nil {
			return err
		}
		return team.OnParts(c, parts, func(c *comm.Comm) error {
			ranks := team.New(c)
			_, err := trainAs(context.Background(), o.ofPart(ranks), ranks)
			return err
		})
	})
}

// sameRuns is a training that must not depend on the number of processes.
type sameRuns struct {
	mesh string
	// processes of runs: each begins on the first number of processes, is stopped after two
	// steps, and goes on with the next number.
	processes [][]int
	set       []string // beside dropout, members by chance, validation, and test starts
}

// checkSameRuns compares a training on processes with one on as many ranks as the mesh has
// parts: weights, moments and best weights by the bytes of the last checkpoint, and the
// losses of all steps.
func checkSameRuns(t *testing.T, all []sameRuns) {
	f := smallData(t)
	for _, k := range all {
		t.Run(fmt.Sprint(k.mesh, k.set), func(t *testing.T) {
			dirs := t.TempDir()
			options := func(dir string, more ...string) TrainOptions {
				set := slices.Concat([]string{"train.networks=1", "train.epochs=2", "train.mesh=" + k.mesh}, k.set, more)
				return TrainOptions{Config: quick(t, f, set...), RunDir: filepath.Join(dirs, dir), Version: "test", Resume: "auto"}
			}
			parts, err := partsOf(k.mesh)
			if err != nil {
				t.Fatal(err)
			}
			if err := trainOnRanks(parts, func(int) TrainOptions { return options("ranks") }); err != nil {
				t.Fatal(err)
			}
			want, steps := digest(t, filepath.Join(dirs, "ranks")), losses(t, filepath.Join(dirs, "ranks"))
			for _, processes := range k.processes {
				dir := fmt.Sprint(processes)
				for leg, n := range processes {
					err := trainOnProcesses(t, n, func(process int) TrainOptions {
						o := options(dir, fmt.Sprint("train.threads=", parts)) // several for each part, or one
						asked := 0
						o.Stop = func() error { // the last process is told
							if asked++; leg < len(processes)-1 && process == n-1 && asked == 3 {
								return &exit.Error{Code: exit.SaveAndStop, What: "told to stop"}
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
				if got := losses(t, filepath.Join(dirs, dir)); !slices.Equal(got, steps) {
					t.Errorf("%v processes: losses %v, on %d ranks %v", processes, got, parts, steps)
				}
				if digest(t, filepath.Join(dirs, dir)) != want {
					t.Errorf("%v processes: other weights than on %d ranks", processes, parts)
				}
			}
		})
	}
}

// A training on a mesh of more parts than processes has the bits that it has on as many
// ranks, also if it goes on with another number of processes.
func TestSameBitsOnAnyProcesses(t *testing.T) {
	checkSameRuns(t, []sameRuns{
		{"data:2 lat:2", [][]int{{3, 1}}, []string{"train.shard_optimizer=true", "train.clip=0.05", "train.ema=0.5", "train.optimizer=adam"}},
		{"lon:3", [][]int{{2}}, nil},
	})
}

// So it has under the launchers of MPI: it is stopped by a signal to one process, and goes
// on with fewer.
func TestSameBitsOnLaunchedProcesses(t *testing.T) {
	whole := filepath.Join(t.TempDir(), "whole")
	r := withMesh(failing(t, whole), "lat:2 lon:2")
	c, err := config.LoadTrain(config.Sources{Files: []string{r.Config}, Set: r.Set})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: whole, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want := digest(t, whole)
	onLaunchers(t, func(t *testing.T, launcher string) {
		r := withMesh(failing(t, filepath.Join(t.TempDir(), "run")), "lat:2 lon:2")
		l := launch(t, launcher, 3, r)
		l.atStep(t, r.RunDir, 2)
		if err := syscall.Kill(l.pid(t, 2), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		code, out := l.end(t)
		if code != exit.SaveAndStop && !strings.HasSuffix(launcher, "mpich") || code == exit.OK || !strings.Contains(out, "error[E075]: ") { // of one rank; the launcher may end others before they tell
			t.Fatal(out)
		}
		r.Pause = 0
		if code, out := launch(t, launcher, 2, r).end(t); code != exit.OK {
			t.Fatal(out)
		}
		if digest(t, r.RunDir) != want {
			t.Error("other weights than on one process")
		}
		if _, err := rundir.ReadManifest(r.RunDir); err != nil {
			t.Error(err)
		}
	})
}
