package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Options of the backend.
type Options struct {
	Device int // number of the GPU, as the driver counts
}

// Open opens a GPU.
//
// Errors: *exit.Error (exit.NoDevice) if there is none, or a library is missing.
func Open(Options) (backend.Backend, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: "backend cuda cannot start", Why: "no NVIDIA driver", Fix: "use backend cpu"}
}
