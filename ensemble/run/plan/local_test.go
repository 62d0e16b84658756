package plan

import (
	"context"
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
)

// TestMemory: the predicted memory is within 15 % of what was measured (docs/parallel.md, in MiB).
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		what                            string
		samples, step, scores, measured int64
	}{
		{"demo", 492, 27, 94, 1249},
		{"GCM", 131, 26, 63, 491},
		{"ENS-10 t850", 33, 136, 20, 429},
		{"ENS-10 z500", 33, 136, 20, 492},
	} {
		l := LocalTraining{SampleMemory: c.samples << 20, StepMemory: c.step << 20, ScoreMemory: c.scores << 20}
		if ratio := mib(l.memory()) / float64(c.measured); math.Abs(ratio-1) > 0.15 {
			t.Errorf("%s: %.0f MiB, measured %d: ratio %.2f", c.what, mib(l.memory()), c.measured, ratio)
		}
	}
}

// A plan states the operations of the sizes of steps, which are about their areas: half of rows and columns is a quarter.
func TestPlanOfSizes(t *testing.T) {
	c := demotest.Config(t, demotest.Files(t), "train.sizes=[16]", "train.whole_epochs=0.5")
	r, err := Run(context.Background(), Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Sizes; s == nil || len(s.Sizes) != 2 || math.Abs(s.Sizes[1].Cost-0.25) > 0.01 || math.Abs(s.Mean-0.625) > 0.01 {
		t.Errorf("sizes %+v, want operations of 1 and 0.25, 0.625 in the mean", s)
	}
}
