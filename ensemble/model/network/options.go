package network

import (
	"cmp"
	"runtime"

	"github.com/ensemble-weather/ensemble/engine"
)

// Options returns the options of all plans of a run. Kernels with different rounding are chosen by
// rule instead of timing, so that all processes use the same ones and a resumed run gives the same
// bits as an uninterrupted one. device is cpu (or empty), cuda or auto; threads is as in Threads.
func Options(threads int, device string) engine.Options {
	return engine.Options{Device: engine.Device{Backend: device, Threads: Threads(threads)}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}}
}

// Threads is n, or the number of processors for 0.
func Threads(n int) int { return cmp.Or(n, runtime.GOMAXPROCS(0)) }
