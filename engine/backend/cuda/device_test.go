//go:build cgo && linux

package cuda_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// realGPU opens the GPU of this machine; a machine without one skips the test.
func realGPU(t *testing.T) *cuda.Backend {
	t.Helper()
	dev, err := cuda.Open(cuda.Options{})
	if exit.CodeOf(err) == exit.NoDevice {
		t.Skipf("skipped: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := dev.(*cuda.Backend)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close the device: %v", err)
		}
	})
	return b
}

// What these tests find on the emulated device they find on a real one.
func TestDeviceConvs(t *testing.T) {
	b := realGPU(t)
	for _, arithmetic := range []string{"bf16", "f16", "float32", "tf32"} {
		for _, c := range largerCases() {
			t.Run(arithmetic+"/"+c.op+"/"+c.name, func(t *testing.T) { compareConv(t, b, c, arithmetic) })
		}
	}
}

func TestDeviceTiles(t *testing.T) { everyTile(t, realGPU(t), largerCases()) }

func TestDeviceSweeps(t *testing.T) {
	b := realGPU(t)
	sweepsEqual(t, b, within(t, b))
}
