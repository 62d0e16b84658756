package jobs

import (
	"testing"

	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train/traintest"
)

// Determinism level D1 with measured kernels: see CheckKernelTimings.
func TestTimedRunsGiveTheSameBits(t *testing.T) {
	traintest.CheckKernelTimings(t, runtest.FiftySteps(t))
}
