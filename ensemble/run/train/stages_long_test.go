//go:build long

package train

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
)

// On ranks a training in stages takes the steps of a single rank.
func TestLongStagesOnRanks(t *testing.T) {
	f := demotest.Files(t)
	runs := map[string][]float64{}
	for _, mesh := range []string{"", "data:2 lat:2"} {
		dir := filepath.Join(t.TempDir(), "run")
		c := runtest.StagedTraining(t, f, "train.optimizer=sgd", "train.learning_rate=0.002", "train.epochs=1") // losses differ by rounding only
		c.Train.Train.Mesh = mesh
		if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
			t.Fatal(err)
		}
		runs[mesh] = runtest.Losses(t, dir)
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
