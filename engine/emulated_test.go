package engine_test

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
)

// Tests of plans run on the emulated GPU as on the other backends, whether or not
// a real GPU is present. Host access to its memory faults, and it executes
// enqueued work only when the program waits.
func init() {
	engine.Backends = append(engine.Backends, engine.Backend{Name: "emulated", Purpose: "kernels of the GPU on the processor",
		Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLazy(1 << 30) }})
}
