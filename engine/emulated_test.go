package engine_test

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
)

// Plans are tested on the emulated GPU as on the other backends, whether there is a real
// one or not: its memory faults when the program touches it, and it works when somebody
// waits for it.
func init() {
	engine.Backends = append(engine.Backends, engine.Backend{Name: "emulated", Purpose: "kernels of the GPU on the processor",
		Open: func(engine.Options) (backend.Backend, error) { return emulated.OpenLazy(1 << 30) }})
}
