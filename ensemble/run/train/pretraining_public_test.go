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
	"github.com/ensemble-weather/ensemble/ensemble/run/train/quality"
	"github.com/ensemble-weather/ensemble/internal/mllog/mllogtest"
)

// On meshes, in a pipeline and with a sharded optimiser, pre-training and fine-tuning take the steps of one rank: all ranks draw
// the same members. (SGD, as the first steps of Adam in the fine-tuning enlarge rounding where the gradient is nearly zero.)
func TestPretrainingOnRanks(t *testing.T) {
	f, dirs := demotest.Files(t), t.TempDir()
	losses := func(set ...string) []float64 {
		t.Helper()
		dir := filepath.Join(dirs, fmt.Sprint(set))
		all := append([]string{"train.pretrain.epochs=2", "train.networks=1", "train.epochs=1", "train.batch_size=4", "train.ema=0.5", "model.dropout=0", "train.optimizer=sgd", "train.learning_rate=0.05"}, set...)
		if _, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, all...), RunDir: dir, Version: "test"}); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		return runtest.Losses(t, dir)
	}
	alone := losses()
	for _, set := range [][]string{{"train.mesh=data:2 lat:2", "train.shard_optimizer=true"}, {"train.mesh=level:2"}, {"train.pipeline.stages=2"}} {
		got := losses(set...)
		if len(got) != len(alone) {
			t.Fatalf("%v: %d steps, on one rank %d", set, len(got), len(alone))
		}
		for i, want := range alone {
			if !(math.Abs(got[i]-want) <= 1e-4*math.Abs(want)) {
				t.Fatalf("%v, step %d: loss %v, on one rank %v", set, i+1, got[i], want)
			}
		}
	}
	if first := losses("train.seed=2"); slices.Equal(first, alone) {
		t.Error("another seed has the same losses")
	}
}

// Windows, shared parameters, Kronecker factors, and the encoder of members support pre-training.
func TestPretrainingWithOtherOptions(t *testing.T) {
	f := demotest.Files(t)
	for _, set := range [][]string{
		{"train.sizes=mixed"},
		{"train.optimizer=kfac", "train.kfac.refresh=2"},
		{"model.share.budget=60%"},
		runtest.MemberInput("data.members.use=2", "data.members.control=exclude", "data.members.full=3"),
		runtest.MemberOutput("data.members.use=3"),
	} {
		set = append(set, "train.pretrain.epochs=1", "train.epochs=1", "train.networks=1", runtest.FirstInits(f, 10))
		if _, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, f, set...), RunDir: filepath.Join(t.TempDir(), "run"), Version: "test"}); err != nil {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// A loss that the pre-training reaches is no result: a timed training whose every loss is below the target ends after the first
// epoch of fine-tuning, and its steps are those of both phases.
func TestPretrainingReachesNoTarget(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "mllog.txt")
	if _, err := train.Run(t.Context(), train.Options{Config: demotest.Config(t, demotest.Files(t), "train.pretrain.epochs=2", "train.networks=1", "train.epochs=3"), RunDir: filepath.Join(dir, "run"), Version: "test",
		Timing: quality.Options{Log: log, Benchmark: "ensemble_test", Target: 1e9, StopAtTarget: true}}); err != nil {
		t.Fatal(err)
	}
	mllogtest.Check(t, log)
	got, err := quality.Read(log)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Reached || got.Epochs != 1 || got.Steps != 12 {
		t.Errorf("%+v, want the target after 1 epoch of fine-tuning and 12 steps", got)
	}
}
