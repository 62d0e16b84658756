//go:build cgo && linux

package run

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/progress"
)

// emulatedGPU has backend cuda compute on the emulated GPU.
func emulatedGPU(t *testing.T) {
	t.Helper()
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = slices.Clone(before)
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	engine.Backends[i].Open = func(engine.Options) (backend.Backend, error) {
		b, err := cuda.Over(func() (device.Device, error) {
			d, err := emulate.OpenLate(1 << 28)
			return numbered{d}, err
		})
		if err != nil {
			return nil, err
		}
		return b, nil
	}
}

// numbered is a device that the driver of driverOfTests knows.
type numbered struct{ *emulate.Late }

func (n numbered) Properties() device.Properties {
	p := n.Late.Properties()
	p.UUID = "GPU-1"
	return p
}

// driverOfTests opens a library that answers as the driver's does, until the test ends: from then
// on it has no driver.
func driverOfTests(t *testing.T) {
	t.Helper()
	if _, err := dl.Open("libnvidia-ml.so.1"); err == nil && !opened {
		t.Skip("skipped: this machine has a driver")
	}
	file := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-Wall", "-Wl,-soname,libnvidia-ml.so.1", "-o", file, "testdata/libnvidia-ml.c").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := dl.Open(file); err != nil {
		t.Fatal(err)
	}
	opened = true
	t.Setenv("FAKE_NVML", "1")
}

// opened tells whether the library of this process is that of tests.
var opened bool

// TestTrainOnDevice: a training on a GPU, with batches that are accumulated, an average of
// the weights and validation, gives the network that one on the processor gives but for
// rounding. Progress, events and the record of the environment tell of the GPU, and nothing where
// there is none.
func TestTrainOnDevice(t *testing.T) {
	emulatedGPU(t)
	driverOfTests(t)
	data := smallData(t)
	few := firstOf(data, 11) // the emulated GPU is slow
	weights := map[string]model.Weights{}
	dirs := map[string]string{}
	for _, device := range []string{"cpu", "cuda"} {
		dirs[device] = filepath.Join(t.TempDir(), device)
		var told bytes.Buffer
		_, err := Train(context.Background(), TrainOptions{RunDir: dirs[device], Version: "test", Progress: progress.New(&told, progress.Plain, time.Hour), Config: quick(t, data,
			few, "train.device="+device, "train.networks=1", "train.epochs=1", "train.batch_size=3", "train.accumulate=2", "train.ema=0.9", "train.clip=1")})
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Load(filepath.Join(dirs[device], "model"), false)
		if err != nil {
			t.Fatal(err)
		}
		weights[device] = m.Networks[0]
		tellsOf(t, device == "cuda", dirs[device], told.String())
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

// tellsOf compares what a training says of its device with what the driver of tests answers.
func tellsOf(t *testing.T, gpu bool, dir, progress string) {
	t.Helper()
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	events := text("events.jsonl")
	var env struct {
		Device *struct{ Name, ID, Driver, CUDA string }
	}
	if err := json.Unmarshal([]byte(text("environment.json")), &env); err != nil {
		t.Fatal(err)
	}
	const line, reading = ", GPU 97 % busy, 10.0 GiB, 61 °C, 1755 of 1980 MHz held down by power, temperature",
		`"used_bytes":10737418240,"temperature_c":61,"power_w":512.3,"clock_mhz":1755,"max_clock_mhz":1980,"memory_clock_mhz":2619,"busy_percent":97,"throttled":["power","temperature"]}`
	if strings.Contains(progress, line) != gpu {
		t.Errorf("GPU %v, progress %s", gpu, progress)
	}
	if strings.Contains(events, reading) != gpu || strings.Contains(events, `"kind":"gpu"`) != gpu || strings.Contains(events, `"driver":"570.86.15","cuda":"12.8"`) != gpu {
		t.Errorf("GPU %v, events\n%s", gpu, events)
	}
	if d := env.Device; (d != nil) != gpu || gpu && (d.Name == "" || d.ID != "GPU-1" || d.Driver != "570.86.15" || d.CUDA != "12.8") {
		t.Errorf("GPU %v, environment %+v", gpu, d)
	}
}

// TestAveragedNetworksOnDevice: networks that are averaged predict on a GPU what they predict on a processor, start after start.
func TestAveragedNetworksOnDevice(t *testing.T) {
	emulatedGPU(t)
	tr, samples, err := rain(t, rainConfig(t), nil)
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
			out, err := m.Predict(context.Background(), model.Options(1, device), samples[k].Forecast, m.Task.Used)
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
		t.Error("the same start is predicted otherwise behind another")
	}
}

// TestPruneOnDevice: weights that are masked in training on a GPU are those that are on a processor, and the others
// move alike.
func TestPruneOnDevice(t *testing.T) {
	emulatedGPU(t)
	of := func(device string) model.Weights {
		tr, _, err := rain(t, rainConfig(t, "train.device="+device, "train.networks=1", "train.epochs=2", "train.ema=0.9", "train.clip=1",
			"prune.method=magnitude", "prune.target=0.6", "prune.every=2", "prune.from=10%", "prune.to=60%"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tr.run(context.Background()); err != nil {
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

// TestOverflowsInFloat16: steps whose gradients overflow are skipped with half of the scale each, until they do not, and
// the training goes on.
func TestOverflowsInFloat16(t *testing.T) {
	emulatedGPU(t)
	opened := inFloat16Only(t)
	tr, _, err := rain(t, rainConfig(t, "train.device=cuda", "train.precision=f16", "train.networks=1", "train.epochs=2", "train.batch_size=2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	tr.at.LossScale.Scale = 0x1p30
	var all []optim.LossScale
	var weights [][]float32
	tr.report = func(int, string) {
		all, weights = append(all, tr.at.LossScale), append(weights, slices.Clone(tr.store.Params()))
	}
	if err := tr.run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(*opened, func(b *inFloat16) bool { return b.stored }) {
		t.Error("no field was stored as float16")
	}
	last := len(all) - 1
	skipped := int(all[last].Skipped)
	if len(all) != 20 || skipped < 2 || skipped > 14 || all[last].Good != 20-skipped {
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

// inFloat16 has fields with their channels last, whatever their sizes, and says whether some were stored as float16.
type inFloat16 struct {
	*cuda.Backend
	stored bool
}

// inFloat16Only has backend cuda open so; behind emulatedGPU.
func inFloat16Only(t *testing.T) *[]*inFloat16 {
	t.Helper()
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	open := engine.Backends[i].Open
	var all []*inFloat16
	engine.Backends[i].Open = func(o engine.Options) (backend.Backend, error) {
		b, err := open(o)
		all = append(all, &inFloat16{b.(*cuda.Backend), false})
		return all[len(all)-1], err
	}
	return &all
}

func (b *inFloat16) Ways(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.Way {
	ways := b.Backend.Ways(o, attrs, in, out)
	if len(ways) > 1 {
		ways[0].Cost++
	}
	return ways
}

func (b *inFloat16) Prepare(q backend.Request) (backend.Kernel, error) {
	b.stored = b.stored || q.Out.Stored() == graph.Float16
	return b.Backend.Prepare(q)
}
