package run

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/spatial"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// trainOnRanks trains on ranks of this process; options give those of each.
func trainOnRanks(n int, options func(rank int) TrainOptions) error {
	return comm.Run(n, comm.Free, func(c *comm.Comm) error {
		_, err := trainAs(context.Background(), options(c.Rank()), team.New(c))
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
// dropout, validation and steps of several batches, and leaves one run: statistics and
// baselines with the same bits, and near scores.
func TestTrainOnRanks(t *testing.T) {
	f := smallData(t)
	alone := filepath.Join(t.TempDir(), "alone")
	set := []string{"train.networks=1", "train.epochs=3", "train.accumulate=2", "data.standardise=las", "data.las.window=3", "data.las.smooth=2",
		"baselines=[emos, emos_point, mbm, climatology]"}
	if _, err := Train(context.Background(), TrainOptions{Config: quick(t, f, set...), RunDir: alone, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	want, files := losses(t, alone), modelFiles(t, alone)
	scores, err := ReadScores(alone)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ranks int
		mesh  string
	}{{2, ""}, {3, "lon:3"}, {4, "data:2 lat:2"}, {2, "data:2"}, {4, "level:2 lon:2"}, {3, "lon:3@2x32x64=lon,2x16x32=lat"}, {2, "lat:2@2x32x64=none"}} {
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
			made := modelFiles(t, runDir)
			for _, name := range []string{"model.json", "arrays.safetensors", "baselines.safetensors"} {
				if string(made[name]) != string(files[name]) {
					t.Errorf("%s differs", name)
				}
			}
			r, err := ReadScores(runDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range scores.Scores {
				s := r.Find(w.ID, w.System, w.Variable, w.Level, w.Lead)
				far := 1e-12 // of what no network has touched
				if w.System == SystemNetwork {
					far = 1e-2
				}
				if s == nil || math.Abs(float64(s.Value-w.Value)) > far*(1+math.Abs(float64(w.Value))) {
					t.Errorf("%s of %s: %v, on one rank %v", w.ID, w.System, s, w.Value)
				}
			}
			if show, err := LoadExample(runDir); err != nil || show == nil {
				t.Errorf("the example for the report: %v, %v", show, err)
			}
		})
	}
}

// Every rank reads its slab and no more; together they have what one rank reads, bit by
// bit, in NetCDF as in GRIB.
func TestRanksReadTheirSlabs(t *testing.T) {
	f := smallData(t)
	for _, kind := range []struct {
		name  string
		files []string
	}{{"GRIB", f.GRIB2[:3]}, {"NetCDF", f.NetCDF[:3]}} {
		c := quick(t, f)
		read := func(ranks *team.Team) (*data, error) {
			return readData(context.Background(), c, kind.files, f.Analyses, ranks)
		}
		whole, err := read(nil)
		if err != nil {
			t.Fatal(err)
		}
		fields := func(d *data) [][]float32 {
			var all [][]float32
			if err := d.train.each(context.Background(), nil, func(i int, fc *ensemble.Forecast, a []*ensemble.Analysis) error {
				if i < 2 {
					all = append(all, fc.Values, a[0].Values)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			return all
		}
		for _, mesh := range []string{"lat:2", "lon:3", "level:2 lon:2", "data:2 lat:2"} {
			m, err := spatial.ParseMesh(mesh)
			if err != nil {
				t.Fatal(err)
			}
			space := m.Size() / max(1, m.Along(m.Size()-1, "data")+1)
			c.Train.Train.Mesh = mesh
			if err := comm.Run(m.Size(), comm.Free, func(g *comm.Comm) error {
				ranks := team.New(g)
				d, err := read(ranks)
				if err != nil {
					return err
				}
				for i, part := range fields(d) {
					want := fields(whole)[i]
					if n := len(part) * space; n > len(want)*3/2 {
						return fmt.Errorf("rank %d has %d of %d values", g.Rank(), len(part), len(want))
					}
					got, err := team.Join(ranks, part, len(want)/(len(d.axes.Levels)*d.grid.Size()))
					if err != nil {
						return err
					}
					if g.Rank() == 0 && !slices.Equal(got, want) {
						return fmt.Errorf("%s, field %d: the slabs are not the whole", mesh, i)
					}
				}
				return nil
			}); err != nil {
				t.Errorf("%s: %v", kind.name, err)
			}
		}
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
		// only rank 0 finds that
		{"a window that is too large", func(int) string { return "data.las.window=99" }, exit.BadData},
	} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := trainOnRanks(2, func(r int) TrainOptions {
			return TrainOptions{Config: quick(t, f, c.set(r), "data.standardise=las"), RunDir: runDir, Version: "test"}
		})
		if exit.CodeOf(err) != c.code || !team.Joint(err) {
			t.Errorf("%s: %v, want exit code %d", c.name, err, c.code)
		}
	}
	// Of parts the processes are named.
	err := trainOnProcesses(t, 2, func(process int) TrainOptions {
		return TrainOptions{Config: quick(t, f, "train.mesh=lon:4", fmt.Sprint("train.seed=", process)), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}
	})
	if exit.CodeOf(err) != exit.RankLost || !team.Joint(err) || !strings.Contains(err.Error(), "ranks [1] differ from rank 0") {
		t.Errorf("two processes of two parts: %v", err)
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
