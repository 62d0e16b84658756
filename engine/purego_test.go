//go:build !cgo || !linux

package engine_test

import (
	"errors"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// TestWithoutCgo verifies that the default backend names what is missing, and
// that ref works.
func TestWithoutCgo(t *testing.T) {
	_, err := engine.Compile(unet(t, 1, 1), engine.Options{})
	if exit.CodeOf(err) != exit.NoDevice || !errors.Is(err, kern.ErrUnavailable) {
		t.Errorf("error %v, want one of a missing device", err)
	}
	train(t, compile(t, unet(t, 1, 1), engine.Options{Device: engine.Device{Backend: "ref"}}), 1)
}
