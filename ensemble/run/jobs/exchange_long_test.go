//go:build long

package jobs

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/internal/mpitest"
	"github.com/ensemble-weather/ensemble/internal/testdecoder"
	"github.com/ensemble-weather/ensemble/io/decode"
)

// timedTraining is the course of a training: the seconds of its steps and its validation loss at the end of each epoch.
type timedTraining struct {
	seconds, losses []float64
	steps           uint64
	late, skipped   float64 // shares of contributions and samples
}

// lossAt is the validation loss of the last epoch that ended by a time.
func (c timedTraining) lossAt(seconds float64) string {
	loss := "-"
	for i, end := range c.seconds {
		if end <= seconds {
			loss = fmt.Sprintf("%.4f", c.losses[i])
		}
	}
	return loss
}

// rate is the number of steps in a second.
func (c timedTraining) rate() float64 { return float64(c.steps) / c.seconds[len(c.seconds)-1] }

// timeTraining trains on four ranks of Open MPI.
func timeTraining(t *testing.T, r rankTraining) (c timedTraining) {
	t.Helper()
	r.RunDir = filepath.Join(t.TempDir(), "run")
	if code, out := start(t, mpitest.Path(t, mpitest.Launchers[0]), 4, r).end(t); code != exit.OK {
		t.Fatal(out)
	}
	total := 0.0
	epochs := runtest.Epochs(t, r.RunDir)
	for _, e := range epochs {
		seconds, ok := e.Number("steps_s")
		loss, ok2 := e.Number("validation_loss")
		if !ok || !ok2 {
			t.Fatalf("an epoch event has no times or losses: %v", e.Values)
		}
		total += seconds
		share, _ := e.Number("late_share")
		c.seconds, c.losses, c.late = append(c.seconds, total), append(c.losses, loss), c.late+share/float64(len(epochs))
		if left, ok := e.Number("skipped_share"); ok {
			c.skipped += left / float64(len(epochs))
		}
		c.steps = e.Step
	}
	return c
}

// TestLongLateRanksTable prints steps per second of the training of a small network on four real ranks, of which one, drawn
// at random, is slower in each step, and the validation loss in the time that the fastest system needs. Every system has
// the same learning rate, and steps that are late do not make the training diverge.
func TestLongLateRanksTable(t *testing.T) {
	testdecoder.Path(t)
	pool, err := decode.NewPool(decode.Options{})
	runtest.Must(t, err)
	defer pool.Close()
	f, err := demo.Write(context.Background(), demo.Config{Inits: 100, Interval: 7 * 24 * time.Hour, Members: 4}, t.TempDir(), demo.GRIB2|demo.NetCDF, demo.Encoder{Pool: pool}, nil)
	runtest.Must(t, err)
	c := demotest.Config(t, f)
	r := rankTraining{Config: c.Files()[0].Path, Set: []string{"train.networks=1", "train.epochs=6", "train.mesh=data:4", "train.schedule=constant", "train.learning_rate=0.003", "train.warmup=0",
		"data.split.fractions.train=0.8", "data.split.fractions.validation=0.1"}}
	systems := []struct {
		name string
		set  []string
	}{
		{"synchronous", nil},
		{"solo", []string{"train.exchange.system=eager", "train.exchange.initiator=solo", "train.exchange.period=10"}},
		{"majority", []string{"train.exchange.system=eager", "train.exchange.period=10"}},
		{"wagma", []string{"train.exchange.system=wagma", "train.exchange.period=10"}},
		{"solo skip", []string{"train.exchange.system=eager", "train.exchange.initiator=solo", "train.exchange.period=10", "train.exchange.skip=true"}},
		{"wagma skip", []string{"train.exchange.system=wagma", "train.exchange.period=10", "train.exchange.skip=true"}},
		{"local", []string{"train.exchange.system=local", "train.exchange.period=10"}},
		{"averaging", []string{"train.exchange.system=local", "train.exchange.rate=1", "train.exchange.momentum=0", "train.exchange.period=10"}},
	}
	for _, ms := range []int{0, 50, 100, 300} {
		courses := map[string]timedTraining{}
		fastest := 0.0
		for _, s := range systems {
			of := r
			of.Slow, of.Set = time.Duration(ms)*time.Millisecond, append(append([]string(nil), r.Set...), s.set...)
			k := timeTraining(t, of)
			courses[s.name] = k
			if end := k.seconds[len(k.seconds)-1]; fastest == 0 || end < fastest {
				fastest = end
			}
		}
		for _, s := range systems {
			k := courses[s.name]
			t.Logf("%3d ms %-12s %5.2f steps/s, late %2.0f %%, left out %2.0f %%, validation loss after %.1f s %s, after %d steps %.4f", ms, s.name, k.rate(), 100*k.late, 100*k.skipped, fastest, k.lossAt(fastest), k.steps, k.losses[len(k.losses)-1])
			if last := k.losses[len(k.losses)-1]; !(last < k.losses[0]) {
				t.Errorf("%d ms, %s: the validation losses %v do not fall", ms, s.name, k.losses)
			}
		}
	}
}
