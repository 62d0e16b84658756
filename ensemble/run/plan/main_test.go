package plan

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
)

// TestMain lets rates of this machine be measured shortly, and removes the data of tests.
func TestMain(m *testing.M) {
	bench.PeakTime = 10 * time.Millisecond
	demotest.Main(m)
}
