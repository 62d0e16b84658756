package train_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// stepClock is a clock that a test advances.
type stepClock struct {
	mu   sync.Mutex
	time time.Time
	tick time.Duration // at each reading
}

func (c *stepClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(by)
}

func (c *stepClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(c.tick)
	return c.time
}

// savedSteps are the steps of the checkpoints that a run wrote.
func savedSteps(t *testing.T, dir string) (steps []uint64) {
	t.Helper()
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	for _, e := range events {
		if e.Kind == "checkpoint" {
			steps = append(steps, e.Step)
		}
	}
	return steps
}

// A training saves as often as train.checkpoint.every states, and at the end of each network; of two intervals the one that ends
// first counts. Automatically it saves after an epoch, or once it has trained for 100 times as long as the last checkpoint took. The
// network does not depend on it. Seven batches, of a sample for each rank, make an epoch; a minute passes on rank 0 before
// each step but the first. The clock of rank 1 runs fast, which does not matter: all ranks save the same steps, or they would
// wait for each other.
func TestCheckpointInterval(t *testing.T) {
	f := demotest.Files(t)
	var want map[string][]byte
	for _, c := range []struct {
		every string
		ranks int
		steps []uint64
		tick  time.Duration // a checkpoint takes as long
	}{
		{"2 epochs", 1, []uint64{14, 21}, 0},
		{"1 epoch", 1, []uint64{7, 14, 21}, 0},
		{"3 steps", 1, []uint64{3, 6, 9, 12, 15, 18, 21}, 0},
		{"5 steps or 1 epoch", 1, []uint64{5, 7, 12, 14, 19, 21}, 0},
		{"4 min", 1, []uint64{4, 8, 12, 16, 20, 21}, 0},
		{"6 min or 1 epoch", 1, []uint64{6, 7, 12, 14, 19, 21}, 0},
		{"6 min or 1 epoch", 2, []uint64{6, 7, 12, 14, 19, 21}, 0},
		{"auto", 1, []uint64{7, 14, 21}, 0},
		{"auto", 1, []uint64{7, 15, 21}, 5 * time.Second},
		{"auto", 2, []uint64{7, 15, 21}, 5 * time.Second},
		{"1h", 1, []uint64{21}, 0},
	} {
		t.Run(fmt.Sprintf("%s of %v on %d", c.every, c.tick, c.ranks), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			runtest.Must(t, traintest.TrainOnRanks(c.ranks, func(rank int) train.Options {
				set := []string{runtest.FirstInits(f, 10*c.ranks), "train.networks=1", "train.epochs=3", fmt.Sprint("train.batch_size=", c.ranks), "train.ema=0.7", "train.early_stop.patience=0", "baselines=[climatology]", "train.checkpoint.every=" + c.every}
				if c.ranks > 1 {
					set = append(set, "train.mesh=data:2")
				}
				clock := &stepClock{time: time.Unix(0, 0), tick: c.tick}
				o := train.Options{Config: demotest.Config(t, f, set...), RunDir: dir, Version: "test", BeforeStep: func(step uint64) {
					if step > 0 { // a step has passed
						clock.advance([]time.Duration{time.Minute, time.Hour}[rank])
					}
				}}
				o.SetClock(clock.now)
				return o
			}))
			if got := savedSteps(t, dir); !slices.Equal(got, c.steps) {
				t.Errorf("saved at steps %v, want %v", got, c.steps)
			}
			if c.ranks > 1 { // sums in another order
				return
			}
			got := runtest.ModelFiles(t, dir)
			if want == nil {
				want = got
			}
			runtest.SameModels(t, c.every, want, got)
		})
	}
}

// A network that early stopping ends has a checkpoint at its end, whatever train.checkpoint.every is.
func TestCheckpointOfEarlyStop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	c := demotest.Config(t, demotest.Files(t), "train.networks=1", "train.epochs=9", "train.batch_size=2", "train.learning_rate=0.05", "train.early_stop.patience=1", "baselines=[climatology]", "train.checkpoint.every=1h")
	runtest.Must(t, traintest.TrainOnRanks(1, func(int) train.Options { return train.Options{Config: c, RunDir: dir, Version: "test"} }))
	events, err := rundir.ReadEvents(dir)
	runtest.Must(t, err)
	last := uint64(0)
	for _, e := range events {
		if e.Kind == "step" {
			last = max(last, e.Step)
		}
	}
	if last == 0 || last >= 9*7 {
		t.Fatalf("%d steps: not stopped early", last)
	}
	if got := savedSteps(t, dir); !slices.Equal(got, []uint64{last}) {
		t.Errorf("saved at steps %v, want %d", got, last)
	}
}
