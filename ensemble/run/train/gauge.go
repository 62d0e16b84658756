package train

import (
	"fmt"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/internal/rundir"
)

// gauge reads the GPU that a training works on, beside its steps. A nil one, and one of a device
// whose driver cannot be asked, read nothing and say nothing: `doctor` says why.
type gauge struct {
	watcher *cuda.Watcher // nil if there is none
	last    time.Time
	now     cuda.Readings
	fresh   bool // not told yet
}

// gaugeEvery is the time between two readings: they take some hundred microseconds.
const gaugeEvery = 10 * time.Second

// note reads the GPU, unless it did so just now, and gives what progress lines say of it: "" if
// nothing is known.
func (g *gauge) note() string {
	if g == nil || g.watcher == nil {
		return ""
	}
	if at := time.Now(); at.Sub(g.last) >= gaugeEvery {
		r, err := g.watcher.Read()
		if err != nil { // a GPU that is lost ends the training by itself
			g.close()
			return ""
		}
		g.last, g.now, g.fresh = at, r, true
	}
	s := fmt.Sprintf(", GPU %d %% busy, %.1f GiB, %d °C, %d of %d MHz", g.now.BusyPercent, float64(g.now.UsedBytes)/(1<<30), g.now.Temperature, g.now.ClockMHz, g.now.MaxClockMHz)
	if len(g.now.Throttled) > 0 {
		s += " held down by " + strings.Join(g.now.Throttled, ", ")
	}
	return s
}

// tell writes an event of each reading.
func (g *gauge) tell(e *rundir.Events, step uint64, epoch int) error {
	if g == nil || !g.fresh {
		return nil
	}
	g.fresh = false
	r := g.now
	return e.Write("gpu", step, epoch, rundir.Value{Name: "used_bytes", Value: r.UsedBytes}, rundir.Value{Name: "temperature_c", Value: r.Temperature},
		rundir.Value{Name: "power_w", Value: r.PowerW}, rundir.Value{Name: "clock_mhz", Value: r.ClockMHz}, rundir.Value{Name: "max_clock_mhz", Value: r.MaxClockMHz},
		rundir.Value{Name: "memory_clock_mhz", Value: r.MemoryClockMHz}, rundir.Value{Name: "busy_percent", Value: r.BusyPercent},
		rundir.Value{Name: "throttled", Value: r.Throttled})
}

// close ends the reading. It may be repeated.
func (g *gauge) close() {
	if g != nil && g.watcher != nil {
		_ = g.watcher.Close() // what was read was told
		g.watcher = nil
	}
}
