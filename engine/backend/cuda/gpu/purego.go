//go:build !cgo || !linux

package gpu

import (
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var errPure = fmt.Errorf("%w: this program was built without cgo and cannot open the NVIDIA driver", device.ErrNone)

// Open always fails without cgo.
//
// Errors: device.ErrNone.
func Open(int) (device.Device, error) { return nil, errPure }

// Count always fails without cgo.
//
// Errors: device.ErrNone.
func Count() (int, error) { return 0, errPure }
