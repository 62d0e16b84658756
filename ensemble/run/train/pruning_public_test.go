package train_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/prune"
	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
	"github.com/ensemble-weather/ensemble/internal/testseed"
)

// countZeros counts the zeros of the filters among weights with a prefix.
func countZeros(at map[string][]float32, prefix string) (gone, all int) {
	for name, v := range at {
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, ".weight") {
			continue
		}
		all += len(v)
		for _, x := range v {
			if x == 0 {
				gone++
			}
		}
	}
	return gone, all
}

// pruningCase is a training that prunes, and where it is stopped.
type pruningCase struct {
	name      string
	set       []string
	stopAfter []int // batches between stops
}

// prunes trains a case uninterrupted and with stops, and checks that both have the same bits, and that
// weights, averages and moments are 0 under the mask, which has the requested sparsity.
func (c pruningCase) prunes(t *testing.T, f *demo.Files) {
	set := append([]string{"train.networks=1", "train.epochs=3", "prune.target=0.5", "prune.from=10%", "prune.to=60%"}, c.set...)
	whole := traintest.CheckResume(t, demotest.Config(t, f, set...), c.stopAfter...)
	m, err := model.Load(filepath.Join(whole, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := os.Stat(filepath.Join(whole, "model", fmt.Sprintf(model.WeightsFormat, 0)))
	if err != nil {
		t.Fatal(err)
	}
	lean, err := ckpt.Open(filepath.Join(whole, "model", fmt.Sprintf(model.WeightsFormat, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer lean.Close()
	all := 0
	for _, x := range m.Networks[0] {
		v, alone := x.Data.([]float32), make([]float32, graph.Shape(x.Shape).Size())
		all += 4 * len(v)
		if err := lean.Float32(alone, x.Name); err != nil || !slices.Equal(alone, v) {
			t.Errorf("%s read alone is another one: %v", x.Name, err)
		}
	}
	if saved := m.Sparsity[0].Bytes[prune.DenseFormat] - m.Sparsity[0].Bytes[prune.Bitmap]; stored.Size() > int64(all)-saved*9/10+8192 {
		t.Errorf("the weights take %d bytes, dense %d, and %d can be saved", stored.Size(), all, saved)
	}
	if len(m.Sparsity) != len(m.Networks) {
		t.Fatalf("sparsity of %d networks, want %d", len(m.Sparsity), len(m.Networks))
	}
	at := runtest.CheckpointTensors(runtest.NewestCheckpoint(t, whole))
	parts := map[string]map[string][]float32{"weights": at, "average": at, "moments": at}
	prefixes := map[string]string{"weights": train.PartWeights, "average": train.PartAverage, "moments": train.PartOptimizer + "m."}
	for i, w := range m.Networks {
		name := fmt.Sprint("network ", i)
		parts[name], prefixes[name] = map[string][]float32{}, ""
		for _, x := range w {
			v, _ := x.Float32()
			parts[name][x.Name] = v
		}
		var weights, nonzeros int
		for _, l := range m.Sparsity[i].Layers {
			weights += l.Weights
			nonzeros += l.Nonzeros
		}
		gone, n := countZeros(parts[name], "")
		s := m.Sparsity[i]
		if s.Weights != n || s.Nonzeros != n-gone || weights != n || nonzeros != n-gone || s.Sparsity != 1-float64(n-gone)/float64(n) {
			t.Errorf("%s: %d zeros of %d weights, reported %+v", name, gone, n, s)
		}
		if want := 4 * int64(n); s.Bytes[prune.DenseFormat] != want || s.Bytes[prune.Bitmap] >= want || s.Bytes[prune.Bitmap] < int64(4*(n-gone)) {
			t.Errorf("%s: bytes %v", name, s.Bytes)
		}
	}
	for name, at := range parts {
		gone, n := countZeros(at, prefixes[name])
		if n == 0 && name == "average" && !slices.Contains(set, "train.ema=0.7") {
			continue
		}
		// A unit may exceed the number of weights that remain to be pruned, and layers smaller than one unit are dense.
		// Weights can be 0 without a mask, as can moments of layers followed by zero weights.
		if s := float64(gone) / float64(n); s > 0.52 && name != "moments" || s < 0.4 {
			t.Errorf("%s: sparsity %g, want 0.5", name, s)
		}
	}
	for name, v := range at {
		if p, ok := strings.CutPrefix(name, train.PartWeights); ok && strings.HasSuffix(name, ".weight") {
			for i, x := range v {
				if e := at[train.PartAverage+p]; x == 0 && (e != nil && e[i] != 0 || at[train.PartOptimizer+"m."+p][i] != 0) && c.name != "2:4" {
					t.Fatalf("%s[%d] is 0, and neither its average nor its moment", p, i)
				}
			}
		}
	}
	events, err := rundir.ReadEvents(whole)
	if err != nil {
		t.Fatal(err)
	}
	var last float64
	left := 1.0 // of the operations
	for _, e := range events {
		if v, ok := e.Number("operations"); ok && e.Kind == "blocks" {
			if v >= left {
				t.Errorf("kernels compute %g of the operations after %g", v, left)
			}
			left = v
		}
		if v, ok := e.Number("sparsity"); ok && e.Kind == "epoch" {
			last = v
		}
	}
	if skips := slices.Contains(set, "model.base=16"); skips != (left < 0.8) {
		t.Errorf("kernels compute %g of the operations", left)
	}
	if last > 0.5 || last < 0.4 {
		t.Errorf("the last event has sparsity %g", last)
	}
}

// A pruning training that is stopped within its schedule ends with the bits of an uninterrupted one. (All
// methods and structures: TestLongPruning.)
func TestPruningResumes(t *testing.T) { checkPruningResumes(t, 2) }

// checkPruningResumes takes n cases, which the seed selects.
func checkPruningResumes(t *testing.T, n int) {
	for _, c := range testseed.Some(t, []pruningCase{
		{"magnitude", []string{"prune.method=magnitude", "prune.every=2", "train.ema=0.7", "train.optimizer=lamb"}, []int{3, 5}},
		{"latent blocks", []string{"prune.method=topkast", "prune.structure=block", "prune.every=2", "model.base=16", "train.ema=0.7"}, []int{3, 5}},
		{"trained blocks", []string{"prune.method=sr_ste", "prune.structure=block", "prune.every=2", "prune.masked_decay=1", "model.base=16", "train.ema=0.7"}, []int{3, 5}},
		{"soft thresholds", []string{"prune.method=soft_threshold", "prune.every=2", "train.ema=0.7"}, []int{3, 5}},
		{"blocks that return", []string{"prune.method=rigl", "prune.structure=block", "prune.every=2", "model.base=16"}, []int{3, 5}},
	}, n) {
		t.Run(c.name, func(t *testing.T) { c.prunes(t, demotest.Files(t)) })
	}
}

// pruningRanks trains on a mesh, with and without a sharded optimiser: all ranks have one mask and the same
// bits, also if gradients and scores select it.
func pruningRanks(t *testing.T, f *demo.Files, mesh string, ranks int, set ...string) {
	set = append(set, "train.networks=1", "train.epochs=3", "train.ema=0.5", "train.clip=0.05", "prune.target=0.6", "train.accumulate=2")
	var digests []string
	for _, shared := range []string{"false", "true"} {
		runDir := filepath.Join(t.TempDir(), "run")
		err := traintest.TrainOnRanks(ranks, func(int) train.Options {
			o := train.Options{Config: demotest.Config(t, f, append(set, "train.shard_optimizer="+shared)...), RunDir: runDir, Version: "test"}
			o.Config.Train.Train.Mesh = mesh
			return o
		})
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, runtest.Digest(t, runDir))
		gone, all := countZeros(runtest.CheckpointTensors(runtest.NewestCheckpoint(t, runDir)), train.PartWeights)
		if s := float64(gone) / float64(all); s < 0.5 || s > 0.62 { // layers smaller than a block are dense
			t.Errorf("sparsity %g", s)
		}
	}
	if digests[0] != digests[1] {
		t.Error("ranks that share the optimiser end with other weights")
	}
}

func TestPruningOnRanks(t *testing.T) {
	pruningRanks(t, demotest.Files(t), "data:2", 2, "prune.method=rigl", "prune.every=2")
	pruningRanks(t, demotest.Files(t), "lat:2", 2, "prune.method=rigl", "prune.every=2", "prune.structure=block", "model.base=16")
}

// Ranks with different masks stop.
func TestRanksMustHaveTheSameMask(t *testing.T) {
	f := demotest.Files(t)
	runDir := filepath.Join(t.TempDir(), "run")
	err := traintest.TrainOnRanks(2, func(rank int) train.Options {
		o := train.Options{Config: demotest.Config(t, f, "train.networks=1", "train.epochs=1", "prune.method=magnitude", "prune.target=0.6", "prune.every=2"), RunDir: runDir, Version: "test"}
		o.Config.Prune.Target -= 0.3 * float64(rank) // not part of the identity of the configuration
		return o
	})
	if exit.CodeOf(err) != exit.RankLost || !strings.Contains(err.Error(), "the pruning mask") {
		t.Errorf("%v, want exit 71", err)
	}
}
