//go:build cgo && linux

package emulated

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
)

// Open returns a backend with the given amount of device memory in bytes.
//
// Errors: those of emulate.Open.
func Open(memory int64) (backend.Backend, error) {
	return openOn(func() (device.Device, error) { return emulate.Open(memory) })
}

// OpenLazy returns a backend on a device that executes work as late as a GPU may
// (emulate.LazyDevice).
//
// Errors: those of emulate.Open.
func OpenLazy(memory int64) (backend.Backend, error) {
	return openOn(func() (device.Device, error) { return emulate.OpenLazy(memory) })
}

func openOn(open func() (device.Device, error)) (backend.Backend, error) {
	b, err := cuda.New(open)
	if err != nil {
		return nil, err // not a nil *cuda.Backend
	}
	return b, nil
}
