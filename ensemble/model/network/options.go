package network

import (
	"cmp"
	"runtime"

	"github.com/ensemble-weather/ensemble/engine"
)

// Options are those of every plan of a run. Kernels that differ in their bits are chosen by
// rule, not by timing, so that every process takes the same ones: a resumed run gives the
// bits of one that never stopped. device is cpu (also if empty), cuda or auto; threads as in Threads.
func Options(threads int, device string) engine.Options {
	return engine.Options{Device: engine.Device{Backend: device, Threads: Threads(threads)}, Numerics: engine.Numerics{UseHeuristics: true, Winograd: true}}
}

// Threads gives all processors for 0.
func Threads(n int) int { return cmp.Or(n, runtime.GOMAXPROCS(0)) }
