package engine_test

import (
	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// Plans are tested on the emulated GPU as on the other backends, whether there is a real
// one or not: its memory faults when the program touches it.
func init() {
	e := engine.Backends[0]
	e.Name, e.Purpose = "emulated", "kernels of the GPU on the processor"
	e.Open = func(engine.Options) (backend.Backend, error) {
		return cuda.Over(func() (device.Device, error) { return emulate.Open(1 << 30) })
	}
	engine.Backends = append(engine.Backends, e)
}
