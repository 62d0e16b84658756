package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// trainOnRanks trains on ranks of this process; options give those of each.
func trainOnRanks(n int, options func(rank int) TrainOptions) error {
	return comm.Run(n, comm.Free, func(c *comm.Comm) error {
		_, err := trainAs(context.Background(), options(c.Rank()), newTeam(c))
		return err
	})
}

// losses are those of the steps of a run.
func losses(t *testing.T, runDir string) []float64 {
	t.Helper()
	events, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	var all []float64
	for _, e := range events {
		if e.Kind == "step" {
			v, _ := e.Number("loss")
			all = append(all, v)
		}
	}
	return all
}

// On every kind of mesh a training takes the steps that it takes on one rank, with
// dropout and validation, and leaves one run.
func TestTrainOnRanks(t *testing.T) {
	f := smallData(t)
	alone := filepath.Join(t.TempDir(), "alone")
	set := []string{"train.networks=1", "train.epochs=3"}
	if _, err := Train(context.Background(), TrainOptions{Config: quick(t, f, set...), RunDir: alone, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want := losses(t, alone)
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{2, ""}, {3, "lon:3"}, {4, "data:2 lat:2"}, {2, "data:2"}} {
		t.Run(fmt.Sprintf("%d ranks, mesh %q", c.ranks, c.mesh), func(t *testing.T) {
			runDir := filepath.Join(t.TempDir(), "run")
			err := trainOnRanks(c.ranks, func(int) TrainOptions {
				o := TrainOptions{RunDir: runDir, Version: "test", Config: quick(t, f, set...)}
				o.Config.Train.Train.Mesh = c.mesh
				return o
			})
			if err != nil {
				t.Fatal(err)
			}
			got := losses(t, runDir)
			if len(got) != len(want) {
				t.Fatalf("%d steps, want %d", len(got), len(want))
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-4*math.Abs(want[i]) {
					t.Fatalf("step %d: loss %v, on one rank %v", i+1, got[i], want[i])
				}
			}
			if _, err := ReadScores(runDir); err != nil {
				t.Error(err)
			}
		})
	}
}

// Ranks with another configuration are refused before the first step, and a mesh of
// another number of ranks is.
func TestRanksMustAgree(t *testing.T) {
	f := smallData(t)
	for _, c := range []struct {
		name string
		set  func(rank int) string
		code exit.Code
	}{
		{"another seed", func(r int) string { return fmt.Sprint("train.seed=", r) }, exit.RankLost},
		{"another mesh", func(int) string { return "train.mesh=lon:3" }, exit.Usage},
		{"no mesh", func(int) string { return "train.mesh=east:2" }, exit.Usage},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := trainOnRanks(2, func(r int) TrainOptions {
			return TrainOptions{Config: quick(t, f, c.set(r)), RunDir: runDir, Version: "test"}
		})
		if exit.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want exit code %d", c.name, err, c.code)
		}
	}
}

// When one rank is told to stop, all save and stop; a resumed run takes the steps of one
// that never stopped, also on another number of ranks.
func TestRanksStopAndResume(t *testing.T) {
	f := smallData(t)
	set := []string{"train.networks=1", "train.epochs=3", "train.mesh=lon:2"}
	whole, runDir := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "run")
	options := func(dir string) TrainOptions {
		return TrainOptions{Config: quick(t, f, set...), RunDir: dir, Version: "test", Resume: "auto"}
	}
	if err := trainOnRanks(2, func(int) TrainOptions { return options(whole) }); err != nil {
		t.Fatal(err)
	}
	told := &exit.Error{Code: exit.SaveAndStop, What: "told to stop"}
	err := trainOnRanks(2, func(rank int) TrainOptions {
		o := options(runDir)
		steps := 0
		o.Stop = func() error {
			if steps++; rank == 1 && steps == 5 {
				return told
			}
			return nil
		}
		return o
	})
	if exit.CodeOf(err) != exit.SaveAndStop {
		t.Fatalf("stopped with %v", err)
	}
	if err := trainOnRanks(2, func(int) TrainOptions { return options(runDir) }); err != nil {
		t.Fatal(err)
	}
	if digest(t, runDir) != digest(t, whole) {
		t.Error("the resumed run ends with other weights")
	}
}

// Ranks that share the optimiser take the steps of ranks that do not, bit for bit, with
// gathered gradients, clipping and an average of the weights; their checkpoints serve any
// number of ranks.
func TestShardedOptimizer(t *testing.T) {
	f := smallData(t)
	options := func(dir string, more ...string) TrainOptions {
		set := append([]string{"train.networks=1", "train.epochs=3", "train.ema=0.5", "train.clip=0.05", "train.accumulate=2", "train.optimizer=lamb"}, more...)
		return TrainOptions{Config: quick(t, f, set...), RunDir: dir, Version: "test", Resume: "auto"}
	}
	dirs := t.TempDir()
	whole := filepath.Join(dirs, "whole")
	if err := trainOnRanks(4, func(int) TrainOptions { return options(whole) }); err != nil {
		t.Fatal(err)
	}
	sharded := filepath.Join(dirs, "sharded")
	if err := trainOnRanks(4, func(int) TrainOptions { return options(sharded, "train.shard_optimizer=true") }); err != nil {
		t.Fatal(err)
	}
	if digest(t, sharded) != digest(t, whole) {
		t.Error("the sharded optimiser ends with other weights")
	}
	want := losses(t, whole)
	for _, ranks := range [][2]int{{4, 1}, {1, 4}, {4, 3}} {
		runDir := filepath.Join(dirs, fmt.Sprint(ranks))
		for part, n := range ranks {
			err := trainOnRanks(n, func(int) TrainOptions {
				o := options(runDir, fmt.Sprint("train.shard_optimizer=", n > 1))
				steps := 0
				o.Stop = func() error {
					if steps++; part == 0 && steps == 5 {
						return &exit.Error{Code: exit.SaveAndStop, What: "told to stop"}
					}
					return nil
				}
				return o
			})
			if code := exit.CodeOf(err); part == 0 && code != exit.SaveAndStop || part == 1 && err != nil {
				t.Fatalf("%d ranks of %v: %v", n, ranks, err)
			}
		}
		got := losses(t, runDir)
		if len(got) != len(want) {
			t.Fatalf("ranks %v: %d steps, want %d", ranks, len(got), len(want))
		}
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-4*math.Abs(want[i]) {
				t.Fatalf("ranks %v, step %d: loss %v, want %v", ranks, i+1, got[i], want[i])
			}
		}
	}
}

func TestLostRankHasItsExitCode(t *testing.T) {
	err := lost(fmt.Errorf("a step: %w", &comm.RankError{Rank: 3, Err: errors.New("no answer")}))
	if exit.CodeOf(err) != exit.RankLost {
		t.Errorf("%v has exit code %d", err, exit.CodeOf(err))
	}
}
