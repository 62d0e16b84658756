//go:build !cgo || !linux

package cudnn

import (
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Library is cuDNN, opened; without cgo there is none.
type Library struct{}

// Open always fails without cgo.
//
// Errors: *exit.Error (exit.NoDevice) that wraps ErrUnavailable.
func Open(func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: "cannot use cuDNN for convolutions on the GPU",
		Why: "this program was built without cgo", Fix: "build with CGO_ENABLED=1 on Linux", Err: ErrUnavailable}
}

// Version is empty without cgo.
func (*Library) Version() string { return "" }

// Path is empty without cgo.
func (*Library) Path() string { return "" }

// New always fails without cgo.
func (*Library) New(device.NativeHandles) (*Handle, error) { return nil, ErrUnavailable }

// NewFromDescription always fails without cgo.
func (*Library) NewFromDescription(string) (*Handle, error) { return nil, ErrUnavailable }

// Handle is cuDNN on one device; without cgo there is none.
type Handle struct{}

// Plans always fails without cgo.
func (*Handle) Plans(Convolution, Limits) ([]*Plan, error) { return nil, ErrUnavailable }

// Plan always fails without cgo.
func (*Handle) Plan(Convolution, string) (*Plan, error) { return nil, ErrUnavailable }

// Restore always fails without cgo.
func (*Handle) Restore(Convolution, string, []byte) (*Plan, error) { return nil, ErrUnavailable }

// Close does nothing without cgo.
func (*Handle) Close() error { return nil }

// Plan is a prepared convolution; without cgo there is none.
type Plan struct{}

// Name is empty without cgo.
func (*Plan) Name() string { return "" }

// Workspace is 0 without cgo.
func (*Plan) Workspace() int64 { return 0 }

// Fused is false without cgo.
func (*Plan) Fused() bool { return false }

// Compiled is false without cgo.
func (*Plan) Compiled() bool { return false }

// Save always fails without cgo.
func (*Plan) Save() ([]byte, error) { return nil, ErrUnavailable }

// Notes are none without cgo.
func (*Plan) Notes() []string { return nil }

// Run always fails without cgo.
func (*Plan) Run(Operands) error { return ErrUnavailable }

// Close does nothing without cgo.
func (*Plan) Close() error { return nil }
