package train

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Accumulated gradients of two batches of 2 train as batches of 4: the same steps, and the same weights and
// velocities up to float32 rounding, although the last step of an epoch has two samples only. (SGD, as Adam
// amplifies rounding where the gradient is zero.)
func TestAccumulateEqualsLargerBatch(t *testing.T) {
	f := demotest.Files(t)
	var got [2]map[string][]float32
	for i, set := range [][]string{{"train.batch_size=4"}, {"train.batch_size=2", "train.accumulate=2"}} {
		dir := filepath.Join(t.TempDir(), "run")
		set = append(set, "train.optimizer=sgd", "train.learning_rate=0.05", "train.epochs=2", "train.networks=1", "model.dropout=0")
		r, err := Run(context.Background(), Options{Config: demotest.Config(t, f, set...), RunDir: dir, Version: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Steps != 8 { // 14 starts
			t.Errorf("%v: %d steps, want 8", set, r.Steps)
		}
		got[i] = runtest.CheckpointTensors(runtest.NewestCheckpoint(t, dir))
	}
	var moved float64
	for name, want := range got[0] {
		for k, v := range got[1][name] {
			// weights below one after eight steps whose sums of a few thousand float32 were
			// ordered otherwise
			if d := math.Abs(float64(v - want[k])); d > 1e-5 {
				t.Fatalf("%s[%d]: %g, one batch gives %g", name, k, v, want[k])
			}
			if strings.HasPrefix(name, partOptimizer) {
				moved = max(moved, math.Abs(float64(v)))
			}
		}
	}
	if len(got[0]) != len(got[1]) || moved < 1e-3 {
		t.Errorf("%d and %d tensors, largest velocity %g", len(got[0]), len(got[1]), moved)
	}
}

// A step that is stopped between its batches is undone completely, including the running statistics. (For an average of the weights
// they would be computed anew.)
func TestStopDuringAStep(t *testing.T) {
	f := demotest.Files(t)
	c := demotest.Config(t, f, "model.kind=unet2d", "model.head=spread", "train.loss.kind=l1", "train.epochs=1", "train.networks=1", "train.batch_size=1",
		"train.accumulate=3", runtest.FirstInits(f, 7), "data.split.fractions.train=0.6", "data.levels=[850hPa]", "data.features=[spread, first]", "data.variables=[t]")
	stopped := &exit.Error{Code: exit.SaveAndStop, What: "stopped"}
	var got [2]map[string][]byte
	for i, left := range []int{1 << 30, 2} {
		dir := filepath.Join(t.TempDir(), "run")
		o := Options{Config: c, RunDir: dir, Version: "test", Resume: "auto", Stop: func() error {
			if left--; left < 0 {
				return stopped
			}
			return nil
		}}
		_, err := Run(context.Background(), o)
		if errors.Is(err, stopped) != (i == 1) {
			t.Fatal(err)
		}
		if i == 1 {
			left = 1 << 30
			_, err = Run(context.Background(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		got[i] = runtest.ModelFiles(t, dir)
	}
	for name, text := range got[0] {
		if !bytes.Equal(text, got[1][name]) {
			t.Errorf("%s differs between the whole and the resumed run", name)
		}
	}
}

// Without validation samples the model stores the average too.
func TestAverageWithoutValidation(t *testing.T) {
	f := demotest.Files(t)
	dir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, f, "train.ema=0.7", "train.epochs=2", "train.networks=1", "data.split.fractions.validation=0")
	if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(filepath.Join(dir, "model"), false)
	if err != nil {
		t.Fatal(err)
	}
	at := runtest.CheckpointTensors(runtest.NewestCheckpoint(t, dir))
	for _, x := range m.Networks[0] {
		if v, err := x.Float32(); err != nil || !slices.Equal(v, at[partAverage+x.Name]) {
			t.Errorf("%s of the model is not the average: %v", x.Name, err)
		}
	}
}

// Optimisers for large batches lower the loss, with suitable learning rates.
func TestLargeBatchOptimisersTrain(t *testing.T) {
	f := demotest.Files(t)
	for _, set := range [][]string{
		{"train.optimizer=lars", "train.learning_rate=0.1", "train.trust_coefficient=0.02", "train.batch_size=2", "train.epochs=6"},
		{"train.optimizer=lamb", "train.learning_rate=0.02"},
	} {
		c := demotest.Config(t, f, append(set, "train.networks=1")...)
		dir := filepath.Join(t.TempDir(), "r")
		if _, err := Run(context.Background(), Options{Config: c, RunDir: dir, Version: "test"}); err != nil {
			t.Fatalf("%v: %v", set, err)
		}
		if first, last := epochLosses(t, dir); !(last < 0.97*first) {
			t.Errorf("%v: mean loss %g in the first epoch, %g in the last", set, first, last)
		} else {
			t.Logf("%v: mean loss %g, then %g", set, first, last)
		}
	}
}

// Schedules with a learning rate scaled for a batch 8 times as large.
func TestScaledSchedules(t *testing.T) {
	c := config.Training{BatchSize: 4, Accumulate: 16, BaseBatchSize: 8, LearningRate: 0.1, Warmup: 50, Epochs: 10, LearningRateScaling: "linear"}
	for _, x := range []struct {
		schedule, scale string
		warmup          int
		step            uint64
		want            float64
	}{
		{"constant", "linear", 50, 0, 0.114}, {"constant", "linear", 50, 9, 0.24}, {"constant", "linear", 50, 24, 0.45}, {"constant", "linear", 50, 49, 0.8}, {"constant", "linear", 50, 99, 0.8},
		{"constant", "sqrt", 50, 49, 0.1 * math.Sqrt(8)}, {"constant", "sqrt", 1, 0, 0.1 * math.Sqrt(8)},
		{"constant", "none", 50, 24, 0.05}, {"constant", "none", 50, 50, 0.1},
		{"cosine", "linear", 50, 24, 0.45}, {"cosine", "linear", 50, 50, 0.8}, {"cosine", "linear", 50, 75, 0.4}, {"cosine", "none", 50, 24, 0.05},
		{"plateau", "linear", 50, 24, 0.45}, {"plateau", "linear", 50, 60, 0.8},
		{"triangular2", "linear", 5, 5, 0.8}, {"triangular2", "linear", 5, 10, 0.8e-4}, {"triangular2", "linear", 10, 4, (0.8*0.8 + 0.2*0.8e-4) * 4.5 / 8},
	} {
		c.Schedule, c.LearningRateScaling, c.Warmup = x.schedule, x.scale, x.warmup
		if got := schedule(c, 10, &optim.PlateauState{}).Rate(x.step); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%s, %s over %d steps: step %d has %v, want %v", x.schedule, x.scale, x.warmup, x.step, got, x.want)
		}
	}
	c.BaseBatchSize, c.Schedule, c.LearningRateScaling, c.Warmup = 0, "constant", "linear", 0
	if got := schedule(c, 10, &optim.PlateauState{}).Rate(0); math.Abs(got-1.6) > 1e-12 {
		t.Errorf("16 batches a step: %v, want 1.6", got)
	}
}

// epochLosses returns the mean losses of the first and the last epoch of a run.
func epochLosses(t *testing.T, runDir string) (first, last float64) {
	t.Helper()
	events, err := rundir.ReadEvents(runDir)
	if err != nil {
		t.Fatal(err)
	}
	first = math.NaN()
	for _, e := range events {
		if e.Kind == "epoch" {
			last, _ = e.Number("loss")
			if first != first {
				first = last
			}
		}
	}
	return first, last
}
