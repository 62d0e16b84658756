//go:build long && cgo && linux

package nvrtc

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

// TestLongKernels compiles all programs, as they are used, for all architectures.
func TestLongKernels(t *testing.T) {
	c := library(t)
	for _, p := range kernels.Variants() {
		for _, a := range architectures {
			compiles(t, c, p, a)
		}
	}
}
