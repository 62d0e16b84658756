//go:build cgo && linux

package runtest

import (
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/emulate"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/internal/dl"
)

// EmulatedGPU makes backend cuda compute on the emulated GPU.
func EmulatedGPU(t *testing.T) {
	t.Helper()
	UseDevice(t, 1<<28, func(d *emulate.LazyDevice) device.Device { return numberedDevice{d} })
}

// UseDevice makes backend cuda compute on what wrap makes of an emulated GPU with some bytes of memory.
func UseDevice(t *testing.T, memory int64, wrap func(*emulate.LazyDevice) device.Device) {
	t.Helper()
	before := engine.Backends
	t.Cleanup(func() { engine.Backends = before })
	engine.Backends = slices.Clone(before)
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	engine.Backends[i].Open = func(o engine.Options) (backend.Backend, error) {
		b, err := cuda.New(func() (device.Device, error) {
			d, err := emulate.OpenLazy(memory)
			return wrap(d), err
		})
		if err != nil {
			return nil, err
		}
		b.SetChoices(o.Choices)
		return b, nil
	}
}

// numberedDevice is a device of the library of FakeDriver.
type numberedDevice struct{ *emulate.LazyDevice }

// Properties returns properties with the identifier of the fake driver.
func (n numberedDevice) Properties() device.Properties {
	p := n.LazyDevice.Properties()
	p.UUID = "GPU-1"
	return p
}

//go:embed testdata/libnvidia-ml.c
var driverSource []byte

// FakeDriver opens a fake driver library until the test ends; afterwards the process has no driver.
func FakeDriver(t *testing.T) {
	t.Helper()
	if _, err := dl.Open("libnvidia-ml.so.1"); err == nil && !driverOpened {
		t.Skip("skipped: this machine has a driver")
	}
	file, source := filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), filepath.Join(t.TempDir(), "libnvidia-ml.c")
	if err := os.WriteFile(source, driverSource, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-Wall", "-Wl,-soname,libnvidia-ml.so.1", "-o", file, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if _, err := dl.Open(file); err != nil {
		t.Fatal(err)
	}
	driverOpened = true
	t.Setenv("FAKE_NVML", "1")
}

// driverOpened reports whether the driver library of this process is the fake one.
var driverOpened bool

// CheckDeviceReports compares the device reports of a training with the readings of the fake driver.
func CheckDeviceReports(t *testing.T, gpu bool, dir, progress string) {
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
	const line, reading = ", GPU 97 % busy, 10.0 GiB, 61 °C, 1755 of 1980 MHz throttled by power, temperature",
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

// Float16Backend is a backend that stores fields channels-last regardless of size, and records whether any was
// stored as float16.
type Float16Backend struct {
	*cuda.Backend
	Stored bool
}

// UseFloat16Backend makes backend cuda use Float16Backend, after EmulatedGPU.
func UseFloat16Backend(t *testing.T) *[]*Float16Backend {
	t.Helper()
	i := slices.IndexFunc(engine.Backends, func(b engine.Backend) bool { return b.Name == "cuda" })
	open := engine.Backends[i].Open
	var all []*Float16Backend
	engine.Backends[i].Open = func(o engine.Options) (backend.Backend, error) {
		b, err := open(o)
		all = append(all, &Float16Backend{b.(*cuda.Backend), false})
		return all[len(all)-1], err
	}
	return &all
}

// LayoutOptions implements backend.Backend.
func (b *Float16Backend) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	ways := b.Backend.LayoutOptions(o, attrs, in, out)
	if len(ways) > 1 {
		ways[0].Cost++
	}
	return ways
}

// Prepare implements backend.Backend.
func (b *Float16Backend) Prepare(q backend.Request) (backend.Kernel, error) {
	b.Stored = b.Stored || q.Out.Stored() == graph.Float16
	return b.Backend.Prepare(q)
}
