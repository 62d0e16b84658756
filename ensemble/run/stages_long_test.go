//go:build long

package run

import (
	"context"
	"math"
	"path/filepath"
	"testing"
)

// A mesh gives a training in stages one sequence of bits, on any number of processes that come
// and go.
func TestLongStagesOnAnyProcesses(t *testing.T) {
	set := []string{"model.method=three_stage", "model.bias.base=2", "model.bias.folds=2", "model.bias.local=3",
		"data.split.fractions.train=0.8", "data.split.fractions.validation=0.05", "train.loss.spread=0"}
	checkSameRuns(t, []sameRuns{
		{"lat:2", [][]int{{2, 1}, {1, 2}}, set},
		{"data:2 lon:2", [][]int{{3, 1, 4}}, append(set, "train.shard_optimizer=true", "train.ema=0.5")},
	})
}

// On ranks a training in stages takes the steps that it takes on one.
func TestLongStagesOnRanks(t *testing.T) {
	f := smallData(t)
	runs := map[string][]float64{}
	for _, mesh := range []string{"", "data:2 lat:2"} {
		dir := filepath.Join(t.TempDir(), "run")
		c := inStages(t, f, "train.optimizer=sgd", "train.learning_rate=0.002", "train.epochs=1") // losses differ by rounding only
		c.Train.Train.Mesh = mesh
		if _, err := Train(context.Background(), TrainOptions{Config: c, RunDir: dir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		runs[mesh] = losses(t, dir)
	}
	got, want := runs["data:2 lat:2"], runs[""]
	if len(got) != 17 || len(want) != 17 {
		t.Fatalf("%d steps, on one rank %d, want 17", len(got), len(want))
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-4*want[i] {
			t.Errorf("step %d: loss %g, on one rank %g", i+1, got[i], want[i])
		}
	}
}

// TestLongStagesResume: the bits of TestStagesWholeJob, on one rank and stopped among corrections
// as well, those of its first and of its second epoch.
func TestLongStagesResume(t *testing.T) {
	resumesToTheSameBits(t, inStages(t, smallData(t), "data.members.least=2"), 3, 20, 18, 8)
}
