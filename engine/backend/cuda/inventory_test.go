//go:build cgo && linux

package cuda

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
)

// TestFailedInit: after a failed Init nothing else is called. The mock panics on
// every function that is not set, as the real library ends the process.
func TestFailedInit(t *testing.T) {
	for ret, want := range map[nvml.Return]string{
		nvml.ERROR_LIBRARY_NOT_FOUND: "not installed",
		nvml.ERROR_DRIVER_NOT_LOADED: "kernel module",
		nvml.Return(4711):            "code 4711",
	} {
		lib := &mock.Interface{InitFunc: func() nvml.Return { return ret }}
		inv, err := inspect(lib)
		if inv != nil || !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), want) {
			t.Errorf("Init returns %d: %v, %v, want %q", ret, inv, err, want)
		}
	}
}

func fake(devices ...*mock.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:                       func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:                   func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc:     func() (string, nvml.Return) { return "570.1", nvml.SUCCESS },
		SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return 12080, nvml.SUCCESS },
		DeviceGetCountFunc:             func() (int, nvml.Return) { return len(devices), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc:     func(i int) (nvml.Device, nvml.Return) { return devices[i], nvml.SUCCESS },
		ErrorStringFunc:                func(nvml.Return) string { return "some reason" },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(string) error { return nil }}
		},
	}
}

func card(memory nvml.Return) *mock.Device {
	return &mock.Device{
		GetNameFunc:                  func() (string, nvml.Return) { return "NVIDIA X", nvml.SUCCESS },
		GetUUIDFunc:                  func() (string, nvml.Return) { return "GPU-1", nvml.SUCCESS },
		GetCudaComputeCapabilityFunc: func() (int, int, nvml.Return) { return 9, 0, nvml.SUCCESS },
		GetMemoryInfoFunc: func() (nvml.Memory, nvml.Return) {
			return nvml.Memory{Total: 80 << 30, Free: 70 << 30, Used: 10 << 30}, memory
		},
		GetMigModeFunc:            func() (int, int, nvml.Return) { return 0, 0, nvml.ERROR_NOT_SUPPORTED },
		GetTemperatureFunc:        func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS },
		GetPowerUsageFunc:         func() (uint32, nvml.Return) { return 512300, nvml.SUCCESS },
		GetEnforcedPowerLimitFunc: func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS },
		GetClockInfoFunc: func(c nvml.ClockType) (uint32, nvml.Return) {
			return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1755, nvml.CLOCK_MEM: 2619}[c], nvml.SUCCESS
		},
		GetMaxClockInfoFunc:                 func(nvml.ClockType) (uint32, nvml.Return) { return 1980, nvml.SUCCESS },
		GetUtilizationRatesFunc:             func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97}, nvml.SUCCESS },
		GetCurrentClocksThrottleReasonsFunc: func() (uint64, nvml.Return) { return 0x44, nvml.SUCCESS },
	}
}

// now is what a card reads.
var now = Readings{UsedBytes: 10 << 30, Temperature: 61, PowerW: 512.3, PowerLimitW: 700, ClockMHz: 1755, MaxClockMHz: 1980, MemoryClockMHz: 2619,
	UtilisationPercent: 97, Throttled: []string{"power", "temperature"}}

func TestInspect(t *testing.T) {
	lib := fake(card(nvml.SUCCESS), card(nvml.SUCCESS))
	inv, err := inspect(lib)
	if err != nil {
		t.Fatal(err)
	}
	want := Device{Index: 1, Name: "NVIDIA X", UUID: "GPU-1", Compute: "9.0", Precisions: []string{"bf16", "f16", "tf32"}, TotalBytes: 80 << 30, FreeBytes: 70 << 30, Readings: now}
	if inv.Driver != "570.1" || inv.CUDA != "12.8" || len(inv.Devices) != 2 || !reflect.DeepEqual(inv.Devices[1], want) {
		t.Errorf("got %+v", inv)
	}
	if n := len(lib.ShutdownCalls()); n != 1 {
		t.Errorf("Shutdown was called %d times", n)
	}
}

func TestDeviceFails(t *testing.T) {
	lib := fake(card(nvml.SUCCESS), card(nvml.ERROR_GPU_IS_LOST))
	if _, err := inspect(lib); err == nil || !strings.Contains(err.Error(), "GPU 1: memory: some reason") {
		t.Errorf("got %v", err)
	}
	if n := len(lib.ShutdownCalls()); n != 1 {
		t.Errorf("Shutdown was called %d times", n)
	}
}

// TestThisMachine: with or without a driver the real library returns a result, and the
// process survives.
func TestThisMachine(t *testing.T) {
	inv, err := Inspect()
	switch {
	case errors.Is(err, ErrNoDriver):
		t.Log(err)
	case err != nil:
		t.Error(err)
	default:
		for _, d := range inv.Devices {
			if d.Name == "" || d.TotalBytes == 0 {
				t.Errorf("GPU without name or memory: %+v", d)
			}
			t.Logf("%+v", d)
		}
	}
}
