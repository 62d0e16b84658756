//go:build cgo && linux

package cuda_test

import (
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/tune"
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

func TestDeviceTwoFour(t *testing.T) {
	b := realGPU(t)
	if !b.HasTwoFourKernels() {
		t.Skipf("skipped: compute capability %d/10 has no sparse tensor cores", b.Device().Properties().Architecture)
	}
	twoFourConvs(t, b, 1)
}

func TestDeviceOptimisers(t *testing.T) {
	b := realGPU(t)
	optimisersEqual(t, b, within(t, b))
}

// TestDevicePieces: every plan of the library that was raced agrees with the reference in pieces
// too: samples, and slabs of rows with zeros on one side only in planes of more rows.
func TestDevicePieces(t *testing.T) {
	b := realGPU(t)
	table := tune.Open(t.TempDir(), b.Machine(), nil)
	b.SetTimings(table)
	zero := op.Conv{Stride: [3]int{1, 1, 1}, Dilation: [3]int{1, 1, 1}, Pad: op.Same(3, 3, 3)}
	stride := zero
	stride.Stride = [3]int{1, 2, 2}
	for _, c := range []struct {
		name string
		x    graph.Shape
		a    op.Conv
	}{{"samples", graph.Shape{4, 32, 3, 20, 24}, zero}, {"slabs", graph.Shape{1, 32, 3, 33, 24}, zero}, {"strides", graph.Shape{1, 32, 3, 35, 24}, stride}} {
		for _, k := range convCasesOf(c.name, []graph.Shape{c.x}, graph.Shape{32, 32, 3, 3, 3}, c.a) {
			compareConv(t, b, k, "float32")
			known := map[string]bool{}
			for _, e := range table.All() {
				for _, way := range e.Candidates {
					known[way.Name] = strings.HasPrefix(way.Name, "cuDNN") && !strings.Contains(way.Name, "pieces")
				}
			}
			for way, whole := range known {
				for _, n := range []string{"2", "4"} {
					if whole {
						k.cut = way + ", pieces " + n
						t.Run(k.op+"/"+c.name+"/"+k.cut, func(t *testing.T) { compareConv(t, b, k, "float32") })
					}
				}
			}
		}
	}
}

func TestDeviceSparseInt8(t *testing.T) {
	b := realGPU(t)
	if a := b.Device().Properties().Architecture; a < 80 {
		t.Skipf("skipped: compute capability %d/10 does not multiply tiles of 16×32 bytes", a)
	}
	sparseInt8Convs(t, b)
}
