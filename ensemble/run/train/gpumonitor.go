package train

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// gpuMonitor reads the GPU that a training works on, beside its steps. A nil one, and one of a device
// whose driver cannot be asked, read nothing and say nothing: `doctor` says why.
type gpuMonitor struct {
	watcher    *cuda.Watcher // nil if there is none
	last       time.Time
	readings   cuda.Readings
	unreported bool // not told yet
}

// gpuReadInterval is the time between two readings: they take some hundred microseconds.
const gpuReadInterval = 10 * time.Second

// progressNote reads the GPU, unless it did so just now, and gives what progress lines say of it: "" if
// nothing is known.
func (g *gpuMonitor) progressNote() string {
	if g == nil || g.watcher == nil {
		return ""
	}
	if at := time.Now(); at.Sub(g.last) >= gpuReadInterval {
		r, err := g.watcher.Read()
		if err != nil { // a GPU that is lost ends the training by itself
			g.close()
			return ""
		}
		g.last, g.readings, g.unreported = at, r, true
	}
	s := fmt.Sprintf(", GPU %d %% busy, %.1f GiB, %d °C, %d of %d MHz", g.readings.UtilisationPercent, float64(g.readings.UsedBytes)/(1<<30), g.readings.Temperature, g.readings.ClockMHz, g.readings.MaxClockMHz)
	if len(g.readings.Throttled) > 0 {
		s += " held down by " + strings.Join(g.readings.Throttled, ", ")
	}
	return s
}

// writeEvent writes an event of each reading.
func (g *gpuMonitor) writeEvent(e *rundir.Events, step uint64, epoch int) error {
	if g == nil || !g.unreported {
		return nil
	}
	g.unreported = false
	r := g.readings
	return e.Write("gpu", step, epoch, rundir.Value{Name: "used_bytes", Value: r.UsedBytes}, rundir.Value{Name: "temperature_c", Value: r.Temperature},
		rundir.Value{Name: "power_w", Value: r.PowerW}, rundir.Value{Name: "clock_mhz", Value: r.ClockMHz}, rundir.Value{Name: "max_clock_mhz", Value: r.MaxClockMHz},
		rundir.Value{Name: "memory_clock_mhz", Value: r.MemoryClockMHz}, rundir.Value{Name: "busy_percent", Value: r.UtilisationPercent},
		rundir.Value{Name: "throttled", Value: r.Throttled})
}

// close ends the reading. It may be repeated.
func (g *gpuMonitor) close() {
	if g != nil && g.watcher != nil {
		_ = g.watcher.Close() // what was read was told
		g.watcher = nil
	}
}
