package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// Determinism level D1 with measured kernels: see CheckKernelTimings. (50 steps of a larger network: TestLongTimedRuns.)
func TestTimedRunsGiveTheSameBits(t *testing.T) {
	traintest.CheckKernelTimings(t, runtest.FiftySteps(t, "train.epochs=1"), 10)
}
