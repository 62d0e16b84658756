//go:build !cgo || !linux

package nccl

import (
	"context"
	"time"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// Library is the NCCL library; it cannot be opened without cgo.
type Library struct{}

// Open always fails without cgo.
//
// Errors: *exit.Error (no device) that wraps ErrUnavailable.
func Open(func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: "cannot use NCCL for training over several GPUs",
		Why: "this program was built without cgo", Fix: "build with CGO_ENABLED=1 on Linux", Err: ErrUnavailable}
}

// Version is empty without cgo.
func (*Library) Version() string { return "" }

// Path is empty without cgo.
func (*Library) Path() string { return "" }

// Join always fails without cgo.
func (*Library) Join(*comm.Comm, device.NativeHandles) (*Comm, error) { return nil, ErrUnavailable }

// Comm is a communicator of GPUs; none can be created without cgo.
type Comm struct{}

// Rank is 0 without cgo.
func (*Comm) Rank() int { return 0 }

// Size is 0 without cgo.
func (*Comm) Size() int { return 0 }

// AllReduce always fails without cgo.
func (*Comm) AllReduce(_, _ device.Pointer, _ int64, _ Type) error { return ErrUnavailable }

// AllReduceCoalesced always fails without cgo.
func (*Comm) AllReduceCoalesced([][]float32) error { return ErrUnavailable }

// ReduceScatter always fails without cgo.
func (*Comm) ReduceScatter(_, _ device.Pointer, _ int64, _ Type) error { return ErrUnavailable }

// AllGather always fails without cgo.
func (*Comm) AllGather(_, _ device.Pointer, _ int64, _ Type) error { return ErrUnavailable }

// Exchange always fails without cgo.
func (*Comm) Exchange([]Part) error { return ErrUnavailable }

// Err always fails without cgo.
func (*Comm) Err() error { return ErrUnavailable }

// Abort does nothing without cgo.
func (*Comm) Abort(error) error { return nil }

// Watch does nothing without cgo.
func (*Comm) Watch(context.Context, time.Duration) (stop func() error) {
	return func() error { return nil }
}

// Close does nothing without cgo.
func (*Comm) Close() error { return nil }

// Devices holds the GPUs of the ranks of a job; there are none without cgo.
type Devices struct{}

// NewDevices always reports that NCCL is not available without cgo. It sends no
// messages.
func NewDevices(*comm.Comm, backend.Backend) (d *Devices, why string, err error) {
	return nil, "this program was built without cgo", nil
}

// Join always fails without cgo.
func (*Devices) Join(*comm.Comm) (backend.Peers, error) { return nil, ErrUnavailable }

// Err always fails without cgo.
func (*Devices) Err() error { return ErrUnavailable }

// Abort does nothing without cgo.
func (*Devices) Abort(error) error { return nil }

// Close does nothing without cgo.
func (*Devices) Close() error { return nil }
