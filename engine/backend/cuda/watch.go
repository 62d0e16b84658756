//go:build cgo && linux

package cuda

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Watcher reads one GPU repeatedly, for the log of a training and the dashboard. It
// must be used by one goroutine at a time.
type Watcher struct {
	lib  nvml.Interface // nil after Close
	dev  nvml.Device
	name string

	driver, cuda string
}

// Watch opens a GPU by its index, "0", in the order of nvidia-smi, or by its UUID,
// "GPU-…". The order of CUDA may differ; the UUID is unambiguous.
//
// Errors: ErrNoDriver as from Inspect, or that there is no such GPU.
func Watch(device string) (*Watcher, error) { return watch(nvml.New(), device) }

// watch is Watch with the library as an argument, for tests.
func watch(lib nvml.Interface, device string) (*Watcher, error) {
	if err := initialise(lib); err != nil {
		return nil, err
	}
	w := &Watcher{lib: lib, name: device}
	var ret nvml.Return
	if i, err := strconv.Atoi(device); err == nil {
		w.dev, ret = lib.DeviceGetHandleByIndex(i)
	} else {
		w.dev, ret = lib.DeviceGetHandleByUUID(device)
	}
	if ret != nvml.SUCCESS {
		return nil, errors.Join(fmt.Errorf("GPU %s: %s", device, lib.ErrorString(ret)), w.Close())
	}
	var err error
	if w.driver, w.cuda, err = versions(lib); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Driver returns the version of the driver, such as "570.86.15", and the newest CUDA
// version that it supports, such as "12.8".
func (w *Watcher) Driver() (version, cuda string) { return w.driver, w.cuda }

// errWatcherClosed is the error of Read after Close.
var errWatcherClosed = errors.New("GPU watcher is closed")

// Read returns the current readings.
//
// Cost: some 100 µs.
func (w *Watcher) Read() (Readings, error) {
	if w.lib == nil {
		return Readings{}, errWatcherClosed
	}
	r, err := readings(w.lib, w.dev)
	if err != nil {
		return r, fmt.Errorf("GPU %s: %w", w.name, err)
	}
	return r, nil
}

// Close closes NVML. It may be called more than once.
func (w *Watcher) Close() error {
	if w.lib == nil {
		return nil
	}
	lib := w.lib
	w.lib = nil
	if ret := lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("close NVML: %s", lib.ErrorString(ret))
	}
	return nil
}

// throttles are the reasons for reduced clocks that users can act on. An idle GPU is
// not one.
var throttles = []struct {
	bits uint64
	name string
}{
	{nvml.ClocksThrottleReasonSwPowerCap, "power"},
	{nvml.ClocksThrottleReasonSwThermalSlowdown | nvml.ClocksThrottleReasonHwThermalSlowdown, "temperature"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power brake of the machine"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware"},
	{nvml.ClocksThrottleReasonApplicationsClocksSetting, "application clocks set"},
	{nvml.ClocksThrottleReasonSyncBoost, "other GPUs of its group"},
	{nvml.ClocksThrottleReasonDisplayClockSetting, "display"},
}

// readings reads all values. Functions that an older NVML lacks are skipped: calling
// one would end the process.
func readings(lib nvml.Interface, dev nvml.Device) (Readings, error) {
	var r Readings
	var mem nvml.Memory
	var busy nvml.Utilization
	var temperature, power, limit, clock, most, memory uint32
	var why uint64
	ask := errorOf(lib)
	for _, q := range []struct {
		what, symbol string
		get          func() nvml.Return
	}{
		{"memory", "nvmlDeviceGetMemoryInfo", func() (r nvml.Return) { mem, r = dev.GetMemoryInfo(); return }},
		{"temperature", "nvmlDeviceGetTemperature", func() (r nvml.Return) { temperature, r = dev.GetTemperature(nvml.TEMPERATURE_GPU); return }},
		{"power", "nvmlDeviceGetPowerUsage", func() (r nvml.Return) { power, r = dev.GetPowerUsage(); return }},
		{"power limit", "nvmlDeviceGetEnforcedPowerLimit", func() (r nvml.Return) { limit, r = dev.GetEnforcedPowerLimit(); return }},
		{"clock", "nvmlDeviceGetClockInfo", func() (r nvml.Return) { clock, r = dev.GetClockInfo(nvml.CLOCK_SM); return }},
		{"highest clock", "nvmlDeviceGetMaxClockInfo", func() (r nvml.Return) { most, r = dev.GetMaxClockInfo(nvml.CLOCK_SM); return }},
		{"clock of the memory", "nvmlDeviceGetClockInfo", func() (r nvml.Return) { memory, r = dev.GetClockInfo(nvml.CLOCK_MEM); return }},
		{"utilisation", "nvmlDeviceGetUtilizationRates", func() (r nvml.Return) { busy, r = dev.GetUtilizationRates(); return }},
		{"reasons for low clocks", "nvmlDeviceGetCurrentClocksThrottleReasons", func() (r nvml.Return) { why, r = dev.GetCurrentClocksThrottleReasons(); return }},
	} {
		if lib.Extensions().LookupSymbol(q.symbol) != nil {
			continue
		}
		ret := q.get()
		if ret == nvml.ERROR_NO_PERMISSION { // as of a shared GPU
			continue
		}
		if err := ask(q.what, ret); err != nil {
			return r, err
		}
	}
	r = Readings{UsedBytes: mem.Used, Temperature: int(temperature), PowerW: float64(power) / 1e3, PowerLimitW: float64(limit) / 1e3,
		ClockMHz: int(clock), MaxClockMHz: int(most), MemoryClockMHz: int(memory), UtilisationPercent: int(busy.Gpu), Throttled: []string{}}
	for _, t := range throttles {
		if why&t.bits != 0 {
			r.Throttled = append(r.Throttled, t.name)
		}
	}
	return r, nil
}
