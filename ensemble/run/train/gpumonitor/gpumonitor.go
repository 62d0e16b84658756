// Package gpumonitor reads the sensors of the GPU that a training uses: for its progress line and as events of the run.
package gpumonitor

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// Monitor reads the sensors of a GPU, at most once every interval. A nil Monitor, and one without a driver library,
// read nothing; `ensemble doctor` reports why.
type Monitor struct {
	watcher    *cuda.Watcher // nil if the driver cannot be read
	last       time.Time     // time of the last reading
	readings   cuda.Readings
	unreported bool // read, but not yet written as an event
}

// interval is the least time between readings; one takes some hundred microseconds.
const interval = 10 * time.Second

// Watch starts to read the GPU with an identifier, of which it returns the versions of the driver and of CUDA; "" if the driver cannot be
// read.
func (g *Monitor) Watch(id string) (driver, runtime string) {
	w, err := cuda.Watch(id)
	if err != nil {
		return "", ""
	}
	g.watcher = w
	return w.Driver()
}

// ProgressNote reads the GPU if the last reading is old enough, and returns the text for the progress line; ""
// without a reading.
func (g *Monitor) ProgressNote() string {
	if g == nil || g.watcher == nil {
		return ""
	}
	if at := time.Now(); at.Sub(g.last) >= interval {
		r, err := g.watcher.Read()
		if err != nil { // if the GPU is lost, the training fails on its own
			g.Close()
			return ""
		}
		g.last, g.readings, g.unreported = at, r, true
	}
	s := fmt.Sprintf(", GPU %d %% busy, %.1f GiB, %d °C, %d of %d MHz", g.readings.UtilisationPercent, float64(g.readings.UsedBytes)/(1<<30), g.readings.Temperature, g.readings.ClockMHz, g.readings.MaxClockMHz)
	if len(g.readings.Throttled) > 0 {
		s += " throttled by " + strings.Join(g.readings.Throttled, ", ")
	}
	return s
}

// WriteEvent writes an event for a new reading.
func (g *Monitor) WriteEvent(e *rundir.Events, step uint64, epoch int) error {
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

// Close ends the readings. It may be called repeatedly.
func (g *Monitor) Close() {
	if g != nil && g.watcher != nil {
		_ = g.watcher.Close() // all readings were reported
		g.watcher = nil
	}
}
