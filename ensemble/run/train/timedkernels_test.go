//go:build cgo && linux

package train_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/ckpt"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/ensemble/run/train"
)

// clocked is a GPU whose measured times are random, so that each chooses other kernels.
type clocked struct {
	*emulate.LazyDevice
	draw func() float64
}

func (c clocked) Time(f func() error) (seconds float64, err error) { return 1e-3 * (1 + c.draw()), f() }

func (c clocked) FreeBytes() (int64, error) { return 1 << 28, nil }

// TestRanksUseSameKernels: two ranks whose kernels have different measured times use the same ones, as a training that continues from a
// checkpoint, with those of rank 0, has the same bits.
func TestRanksUseSameKernels(t *testing.T) {
	f := demotest.Files(t)
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(40, 6))
	runtest.UseDevice(t, 1<<28, func(d *emulate.LazyDevice) device.Device {
		return clocked{d, func() float64 { mu.Lock(); defer mu.Unlock(); return r.Float64() }}
	})
	dir := filepath.Join(t.TempDir(), "run")
	run := func(resume string) string {
		_, err := train.Run(context.Background(), train.Options{RunDir: dir, Version: "test", Resume: resume, Config: demotest.Config(t, f, runtest.FirstInits(f, 11),
			"train.device=cuda", "train.networks=1", "train.epochs=2", "train.batch_size=2", "train.mesh=data:2", "data.levels=[850hPa]", "data.leads=[48h]", "model.base=1", "train.checkpoint.keep=9")})
		runtest.Must(t, err)
		return runtest.Digest(t, dir)
	}
	want := run("")
	steps, err := ckpt.List(filepath.Join(dir, "checkpoints"))
	runtest.Must(t, err)
	if got := run(strconv.FormatUint(steps[0], 10)); len(steps) != 2 || got != want {
		t.Errorf("continued from step %d of %v: %s, want %s", steps[0], steps, got, want)
	}
}
