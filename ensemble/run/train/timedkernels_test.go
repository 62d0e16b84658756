//go:build cgo && linux

package train_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// clocked is a GPU whose measured times are random, so that each chooses other kernels. What is timed is not run.
type clocked struct {
	*emulate.LazyDevice
	draw func() float64
}

func (c clocked) Time(func() error) (seconds float64, err error) { return 1e-3 * (1 + c.draw()), nil }

func (c clocked) FreeBytes() (int64, error) { return 1 << 28, nil }

// TestRanksUseSameKernels: two ranks whose kernels have different measured times use the same ones: those of rank 0, which a checkpoint has.
// Ranks that cannot are refused.
func TestRanksUseSameKernels(t *testing.T) {
	f := demotest.Files(t)
	for _, canRepeat := range []bool{false, true} {
		var mu sync.Mutex
		r := rand.New(rand.NewPCG(40, 6))
		runtest.UseDevice(t, 1<<28, func(d *emulate.LazyDevice) device.Device {
			return clocked{d, func() float64 { mu.Lock(); defer mu.Unlock(); return r.Float64() }}
		})
		if !canRepeat {
			i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
			open := engine.Backends[i].Open
			engine.Backends[i].Open = func(o engine.Options) (backend.Backend, error) {
				o.Choices = nil
				return open(o)
			}
		}
		_, err := train.Run(context.Background(), train.Options{RunDir: filepath.Join(t.TempDir(), "run"), Version: "test", Config: demotest.Config(t, f, runtest.FirstInits(f, 7),
			"train.device=cuda", "train.networks=1", "train.epochs=1", "train.batch_size=2", "train.mesh=data:2", "data.levels=[850hPa]", "data.leads=[48h]", "model.base=1", "baselines=[climatology]")})
		switch {
		case canRepeat:
			runtest.Must(t, err)
		case exit.CodeOf(err) != exit.NoDevice || !strings.Contains(err.Error(), "the ranks cannot use the same kernels") || !strings.Contains(err.Error(), `rank 0 uses "conv`):
			t.Errorf("%v, want exit 69 with the kernels", err)
		}
	}
}
