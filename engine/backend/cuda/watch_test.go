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

// TestWatch: a GPU is found by number and by identity, and read until the watcher is closed.
func TestWatch(t *testing.T) {
	lib := fake(card(nvml.SUCCESS), card(nvml.SUCCESS))
	lib.DeviceGetHandleByUUIDFunc = func(id string) (nvml.Device, nvml.Return) {
		if id != "GPU-1" {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return card(nvml.SUCCESS), nvml.SUCCESS
	}
	for _, device := range []string{"1", "GPU-1"} {
		w, err := watch(lib, device)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if r, err := w.Read(); err != nil || !reflect.DeepEqual(r, now) {
				t.Errorf("%s: got %+v, %v", device, r, err)
			}
		}
		for range 2 {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.Read(); !errors.Is(err, errWatcherClosed) {
			t.Errorf("a closed watcher reads: %v", err)
		}
	}
	if _, err := watch(lib, "GPU-2"); err == nil || !strings.Contains(err.Error(), "GPU GPU-2: some reason") {
		t.Errorf("another identity: %v", err)
	}
	if init, shut := len(lib.InitCalls()), len(lib.ShutdownCalls()); init != 3 || shut != 3 {
		t.Errorf("%d Init, %d Shutdown; want 3 of each", init, shut)
	}
}

// TestWatchFailedInit: nothing is called after a failed Init; the mock panics if it is.
func TestWatchFailedInit(t *testing.T) {
	lib := &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}
	if w, err := watch(lib, "0"); w != nil || !errors.Is(err, ErrNoDriver) {
		t.Errorf("got %v, %v", w, err)
	}
}

// TestReadings: values that a device does not report, or that an old library cannot
// read, are zero; a device that fails is an error.
func TestReadings(t *testing.T) {
	d := card(nvml.SUCCESS)
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NO_PERMISSION }
	d.GetCurrentClocksThrottleReasonsFunc = nil // the mock panics
	lib := fake(d)
	lib.ExtensionsFunc = func() nvml.ExtendedInterface {
		return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
			if name == "nvmlDeviceGetCurrentClocksThrottleReasons" {
				return errors.New("no such symbol")
			}
			return nil
		}}
	}
	want := now
	want.PowerW, want.UtilisationPercent, want.Throttled = 0, 0, []string{}
	if r, err := readings(lib, d); err != nil || !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, %v", r, err)
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	if _, err := readings(lib, d); err == nil || !strings.Contains(err.Error(), "temperature: some reason") {
		t.Errorf("a lost GPU: %v", err)
	}
}
