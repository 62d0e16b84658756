//go:build !cgo || !linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// VariantWork returns nothing without cgo.
func VariantWork(string) ([]tune.Work, error) { return nil, nil }

// Open always fails without cgo.
//
// Errors: *exit.Error (exit.NoDevice) that wraps kern.ErrUnavailable.
func Open(Options) (backend.Backend, error) {
	return nil, &exit.Error{Code: exit.NoDevice, What: "backend cpu is not part of this program",
		Why: kern.ErrUnavailable.Error(), Fix: "build with CGO_ENABLED=1 on Linux, or use backend ref", Err: kern.ErrUnavailable}
}
