//go:build long && cgo && linux

package cuda_test

import (
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
)

// TestLongEveryTile computes in every size of tiles that devices choose from.
func TestLongEveryTile(t *testing.T) { everyTile(t, emulatedGPU(t), largerCases()) }

// TestLongEveryTileInQuads computes in every size that a V100 multiplies float16 in.
func TestLongEveryTileInQuads(t *testing.T) {
	b := gpuOf(t, func() (device.Device, error) {
		d, err := emulate.Open(1 << 30)
		return older{d, 70}, err
	})
	inTiles(t, b, largerCases(), []tiled{{&kernels.ConvTiles, false, []string{"f16"}}, {&kernels.FilterTiles, true, []string{"f16"}}})
}

func TestLongLargerConvs(t *testing.T) { largerConvs(t, 1) }

// TestLongTwoFour computes each convolution with a 2:4 filter in every tile.
func TestLongTwoFour(t *testing.T) { twoFourConvs(t, emulatedGPU(t), 1) }

// TestLongWarpgroups computes in every tile of warpgroups.
func TestLongWarpgroups(t *testing.T) { inWarpgroups(t, largerCases(), 1) }
