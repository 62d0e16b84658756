//go:build cgo && linux

package run

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulated"
	"github.com/ensemble-weather/ensemble/ensemble/model"
)

// emulatedGPU has backend cuda compute on the emulated GPU.
func emulatedGPU(t *testing.T) {
	t.Helper()
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = slices.Clone(before)
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	engine.Backends[i].Open = func(engine.Options) (backend.Backend, error) { return emulated.OpenLate(1 << 28) }
}

// TestTrainOnDevice: a training on a GPU, with batches that are accumulated, an average of
// the weights and validation, gives the network that one on the processor gives but for
// rounding.
func TestTrainOnDevice(t *testing.T) {
	emulatedGPU(t)
	data := smallData(t)
	weights := map[string]model.Weights{}
	dirs := map[string]string{}
	for _, device := range []string{"cpu", "cuda"} {
		dirs[device] = filepath.Join(t.TempDir(), device)
		_, err := Train(context.Background(), TrainOptions{RunDir: dirs[device], Version: "test", Config: quick(t, data,
			"train.device="+device, "train.networks=1", "train.epochs=1", "train.batch_size=3", "train.accumulate=2", "train.ema=0.9", "train.clip=1")})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dirs[device], "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights[device] = m.Networks[0]
	}
	for k, want := range weights["cpu"] {
		got := weights["cuda"][k].Data.([]float32)
		for i, v := range want.Data.([]float32) {
			if math.Abs(float64(got[i]-v)) > 1e-3 {
				t.Fatalf("%s[%d]: %v on the GPU, %v on the processor", want.Name, i, got[i], v)
			}
		}
	}
}
