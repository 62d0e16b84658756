//go:build cgo && linux

package train

import (
	"bytes"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/demo/demotest"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/run/runtest"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// TestTrainOnDevice checks that a training on a GPU, with accumulated batches, averaged weights and
// validation, gives the network of a training on the processor up to rounding. Progress, events and the
// environment record report the GPU if there is one.
func TestTrainOnDevice(t *testing.T) {
	runtest.EmulatedGPU(t)
	runtest.FakeDriver(t)
	data := demotest.Files(t)
	few := runtest.FirstInits(data, 9) // the emulated GPU is slow
	weights := map[string]model.Weights{}
	dirs := map[string]string{}
	for _, device := range []string{"cpu", "cuda"} {
		dirs[device] = filepath.Join(t.TempDir(), device)
		var output bytes.Buffer
		_, err := Run(context.Background(), Options{RunDir: dirs[device], Version: "test", Progress: progress.New(&output, progress.Plain, time.Nanosecond), Config: demotest.Config(t, data,
			few, "data.leads=[48h]", "train.device="+device, "train.networks=1", "train.epochs=1", "train.batch_size=2", "train.accumulate=2", "train.ema=0.9", "train.clip=1")})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dirs[device], "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights[device] = m.Networks[0]
		runtest.CheckDeviceReports(t, device == "cuda", dirs[device], output.String())
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

// TestAveragedNetworksOnDevice checks that averaged networks predict on a GPU what they predict on a
// processor.
func TestAveragedNetworksOnDevice(t *testing.T) {
	runtest.EmulatedGPU(t)
	tr, samples, err := trainRain(t, rainConfig(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(device string) (all [][]float32) {
		m := untrained(t, tr)
		other := slices.Clone(m.Networks[0])
		for i, w := range other {
			x := slices.Clone(w.Data.([]float32))
			for k := range x {
				x[k] *= 1.25
			}
			other[i].Data = x
		}
		m.Networks = append(m.Networks, other)
		defer m.Close()
		for _, k := range []int{0, 1, 0, 2} {
			out, err := m.Predict(context.Background(), network.Options(1, device), samples[k].Forecast, m.Task.UsedMembers)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, slices.Concat(append(out.Parameters, out.Mean, out.Sigma, out.Spread)...))
		}
		return all
	}
	got, want := of("cuda"), of("cpu")
	for k := range want {
		for i, v := range want[k] {
			if math.Abs(float64(got[k][i]-v)) > 1e-4*(1+math.Abs(float64(v))) {
				t.Fatalf("prediction %d, number %d: %v on the GPU, %v on the processor", k, i, got[k][i], v)
			}
		}
	}
	if !slices.Equal(got[0], got[2]) || slices.Equal(got[0], got[1]) {
		t.Error("the prediction of a sample depends on the one before")
	}
}

// TestPruneOnDevice checks that training on a GPU masks the same weights as on a processor, and updates the
// others alike.
func TestPruneOnDevice(t *testing.T) {
	runtest.EmulatedGPU(t)
	of := func(device string) model.Weights {
		tr, _, err := trainRain(t, rainConfig(t, "train.device="+device, "train.networks=1", "train.epochs=2", "train.ema=0.9", "train.clip=1",
			"prune.method=magnitude", "prune.target=0.6", "prune.every=2", "prune.from=10%", "prune.to=60%"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.loop(context.Background()); err != nil {
			t.Fatal(err)
		}
		return tr.model.Networks[0]
	}
	got, want := of("cuda"), of("cpu")
	masked := 0
	for k, w := range want {
		x := got[k].Data.([]float32)
		for i, v := range w.Data.([]float32) {
			if v == 0 && strings.HasSuffix(w.Name, ".weight") {
				masked++
			}
			if (x[i] == 0) != (v == 0) || math.Abs(float64(x[i]-v)) > 1e-3 {
				t.Fatalf("%s[%d]: %v on the GPU, %v on the processor", w.Name, i, x[i], v)
			}
		}
	}
	if masked < 50 {
		t.Errorf("%d weights are masked", masked)
	}
}

// TestOverflowsInFloat16 checks that steps with overflowing gradients are skipped, halving the loss scale
// each time, until they do not overflow.
func TestOverflowsInFloat16(t *testing.T) {
	runtest.EmulatedGPU(t)
	opened := runtest.UseFloat16Backend(t)
	tr, _, err := trainRain(t, rainConfig(t, "train.device=cuda", "train.precision=f16", "train.networks=1", "train.epochs=2", "train.batch_size=2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.pos.LossScale.Scale = 0x1p30
	var all []optim.LossScale
	var weights [][]float32
	tr.observers.report = func(int, string) {
		all, weights = append(all, tr.pos.LossScale), append(weights, slices.Clone(tr.current.store.Params()))
	}
	if err := tr.loop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(*opened, func(b *runtest.Float16Backend) bool { return b.Stored }) {
		t.Error("no field was stored as float16")
	}
	last := len(all) - 1
	skipped := int(all[last].Skipped)
	if len(all) != 20 || skipped < 2 || skipped > 14 || all[last].GoodSteps != 20-skipped {
		t.Fatalf("%d steps, in the end %+v", len(all), all[last])
	}
	for i, l := range all {
		if n := min(i+1, skipped); l.Scale != math.Ldexp(0x1p30, -n) || l.Skipped != uint64(n) {
			t.Errorf("behind step %d %+v", i+1, l)
		}
		if i > 0 && slices.Equal(weights[i], weights[i-1]) != (i < skipped) {
			t.Errorf("step %d: moved %v", i+1, !slices.Equal(weights[i], weights[i-1]))
		}
	}
}
