package train_test

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// pipelined lists overrides of a training that takes the same steps in a pipeline with four micro-batches of one sample, and on
// one rank that accumulates batches of one sample.
func pipelined(stages int, schedule string) []string {
	if stages == 0 {
		return []string{"train.batch_size=1", "train.accumulate=4"}
	}
	return []string{"train.batch_size=4", fmt.Sprint("train.pipeline.stages=", stages), "train.pipeline.schedule=" + schedule}
}

// far is the largest difference between losses of a pipeline and of one rank, relative to the loss. Kernels and fusions differ, and
// weights of micro-batches are rounded to float32: some 1e-7 in a gradient, which steps of Adam with small gradients enlarge.
const far = 1e-4

// compareLosses compares the losses of two runs.
func compareLosses(t *testing.T, got, want []float64) {
	t.Helper()
	if len(got) != len(want) || len(want) == 0 {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= far*math.Abs(want[i])) {
			t.Fatalf("step %d: loss %v, on one rank %v", i+1, got[i], want[i])
		}
	}
}

// In pipelines of all schedules a training takes the steps of a single rank that accumulates the micro-batches, with dropout,
// clipping, averaged weights and a last batch that is not full. GPipe and 1F1B add in the same order: their weights have the same
// bits.
func TestTrainInPipelines(t *testing.T) {
	f := demotest.Files(t)
	for _, network := range [][]string{
		{"model.dropout=0.2", "train.ema=0.5", "train.optimizer=lamb", "train.clip=0.05"},
		{"model.kind=unet_2plus1d", "data.leads=[0h, 24h, 48h]", "model.base=8"},
	} {
		set := append([]string{"train.networks=1", "train.epochs=2", "baselines=[climatology]"}, network...)
		dirs := t.TempDir()
		run := func(stages int, schedule string) string {
			dir := filepath.Join(dirs, schedule+fmt.Sprint(stages))
			c := demotest.Config(t, f, slices.Concat(set, pipelined(stages, schedule))...)
			if _, err := train.Run(t.Context(), train.Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
				t.Fatalf("%d stages, %s: %v", stages, schedule, err)
			}
			return dir
		}
		want := runtest.Losses(t, run(0, ""))
		for _, stages := range []int{2, 4} {
			digests := map[string]string{}
			for _, schedule := range []string{"gpipe", "1f1b", "chimera"} {
				dir := run(stages, schedule)
				compareLosses(t, runtest.Losses(t, dir), want)
				digests[schedule] = runtest.Digest(t, dir)
				checkIdle(t, dir)
			}
			if digests["gpipe"] != digests["1f1b"] {
				t.Errorf("%d stages: gpipe and 1f1b end with other weights", stages)
			}
		}
	}
}

// checkIdle checks the idle share of epoch events.
func checkIdle(t *testing.T, dir string) {
	t.Helper()
	events, err := rundir.ReadEvents(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if idle, ok := e.Number("pipeline_idle"); e.Kind == "epoch" && (!ok || !(idle > 0 && idle < 1)) {
			t.Errorf("epoch %d has an idle share of %v, %v", e.Epoch, idle, ok)
		}
	}
}

var _ = traintest.TrainOnRanks
