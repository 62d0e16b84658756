//go:build !cgo || !linux

package emulated

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Open always fails: kernels are called through cgo.
//
// Errors: *exit.Error (exit.NoDevice).
func Open(int64) (backend.Backend, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: "cannot emulate GPUs", Why: "this program was built without cgo, or not for Linux", Fix: "build with CGO_ENABLED=1 on Linux"}
}

// OpenLazy is Open.
func OpenLazy(memory int64) (backend.Backend, error) { return Open(memory) }
