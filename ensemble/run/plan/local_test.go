package plan

import (
	"math"
	"testing"
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
