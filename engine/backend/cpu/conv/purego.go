//go:build !cgo || !linux

package conv

import "github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"

// Conv is a prepared convolution; without cgo there is none.
type Conv struct{}

// Prepare always fails without cgo.
//
// Errors: ErrShape; kern.ErrUnavailable.
func Prepare(s Spec, _ Options) (*Conv, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	return nil, kern.ErrUnavailable
}
