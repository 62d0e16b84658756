package explain

import (
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/bench"
)

func TestMain(m *testing.M) {
	bench.PeakTime = 10 * time.Millisecond
	demotest.Main(m)
}
