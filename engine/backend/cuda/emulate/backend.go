//go:build cgo && linux

package emulate

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Backend opens the CUDA backend over an emulated device with so much memory, in bytes.
//
// Errors: as of Open.
func Backend(memory int64) (backend.Backend, error) {
	b, err := cuda.Over(func() (device.Device, error) { return Open(memory) })
	if err != nil {
		return nil, err // not a nil *cuda.Backend
	}
	return b, nil
}
