//go:build !cgo || !linux

package gpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

var errPure = &exit.Error{Code: exit.NoDevice, What: "cannot use a GPU", Why: "this program was built without cgo and cannot open the NVIDIA driver",
	Fix: "build with CGO_ENABLED=1 on Linux", Err: device.ErrNoDevice}

// Open always fails without cgo.
//
// Errors: *exit.Error (no device) around device.ErrNoDevice.
func Open(int) (device.Device, error) { return nil, errPure }

// Count always fails without cgo.
//
// Errors: *exit.Error (no device) around device.ErrNoDevice.
func Count() (int, error) { return 0, errPure }
