//go:build cgo && linux

package cuda

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
)

// Inspect returns the GPUs of the machine.
//
// Errors: ErrNoDriver if the driver's library is missing or does not start; else an
// error with the number of the GPU that does not respond.
// Cost: some 10 ms; more if the driver has to be initialised first.
// Source: NVIDIA, NVML API Reference.
func Inspect() (*Inventory, error) { return inspect(nvml.New()) }

// initErrors are the texts of return codes of nvmlInit. NVML's own texts are not used:
// after a failed init any further call may end the process with an unresolved symbol.
var initErrors = map[nvml.Return]string{
	nvml.ERROR_LIBRARY_NOT_FOUND:         "libnvidia-ml.so.1 is not installed",
	nvml.ERROR_DRIVER_NOT_LOADED:         "the kernel module is not loaded",
	nvml.ERROR_NO_PERMISSION:             "no permission to use the driver",
	nvml.ERROR_LIB_RM_VERSION_MISMATCH:   "the driver's library and kernel module have different versions",
	nvml.ERROR_GPU_NOT_FOUND:             "the driver found no GPU",
	nvml.ERROR_FUNCTION_NOT_FOUND:        "the driver's library is too old",
	nvml.ERROR_OPERATING_SYSTEM:          "the operating system has blocked the GPU",
	nvml.ERROR_INSUFFICIENT_RESOURCES:    "the driver lacks memory or other resources",
	nvml.ERROR_INSUFFICIENT_POWER:        "a power cable of the GPU is not attached",
	nvml.ERROR_IRQ_ISSUE:                 "the driver has a problem with interrupts",
	nvml.ERROR_GPU_IS_LOST:               "a GPU has fallen off the bus",
	nvml.ERROR_RESET_REQUIRED:            "a GPU must be reset",
	nvml.ERROR_INSUFFICIENT_SIZE:         "the driver's library is of another version than expected",
	nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "the driver's library is of another version than expected",
}

// initialise starts NVML.
func initialise(lib nvml.Interface) error {
	ret := lib.Init()
	if ret == nvml.SUCCESS {
		return nil
	}
	why, ok := initErrors[ret]
	if !ok {
		why = fmt.Sprintf("NVML returned code %d", int(ret))
	}
	return fmt.Errorf("%w: %s", ErrNoDriver, why)
}

// errorOf returns a function that converts return codes to errors. A query that the GPU
// does not support is not an error.
func errorOf(lib nvml.Interface) func(what string, ret nvml.Return) error {
	return func(what string, ret nvml.Return) error {
		if ret == nvml.SUCCESS || ret == nvml.ERROR_NOT_SUPPORTED {
			return nil
		}
		return fmt.Errorf("%s: %s", what, lib.ErrorString(ret))
	}
}

// inspect is Inspect with the library as an argument, for tests.
func inspect(lib nvml.Interface) (inv *Inventory, err error) {
	if err := initialise(lib); err != nil {
		return nil, err
	}
	defer func() {
		if ret := lib.Shutdown(); ret != nvml.SUCCESS && err == nil {
			err = fmt.Errorf("close NVML: %s", lib.ErrorString(ret))
		}
	}()
	ask := errorOf(lib)
	inv = &Inventory{Devices: []Device{}}
	if inv.Driver, inv.CUDA, err = versions(lib); err != nil {
		return nil, err
	}
	n, ret := lib.DeviceGetCount()
	if err := ask("number of GPUs", ret); err != nil {
		return nil, err
	}
	for i := range n {
		d := Device{Index: i}
		dev, ret := lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			return nil, fmt.Errorf("GPU %d: %s", i, lib.ErrorString(ret))
		}
		var major, minor, mode int
		var mem nvml.Memory
		for _, q := range []struct {
			what string
			get  func() nvml.Return
		}{
			{"name", func() (r nvml.Return) { d.Name, r = dev.GetName(); return }},
			{"identity", func() (r nvml.Return) { d.UUID, r = dev.GetUUID(); return }},
			{"compute capability", func() (r nvml.Return) { major, minor, r = dev.GetCudaComputeCapability(); return }},
			{"memory", func() (r nvml.Return) { mem, r = dev.GetMemoryInfo(); return }},
			{"MIG mode", func() (r nvml.Return) { mode, _, r = dev.GetMigMode(); return }},
		} {
			if err := ask(fmt.Sprintf("GPU %d: %s", i, q.what), q.get()); err != nil {
				return nil, err
			}
		}
		d.Compute = fmt.Sprintf("%d.%d", major, minor)
		d.Precisions = matrixPrecisions(10*major + minor)
		d.TotalBytes, d.FreeBytes, d.MIG = mem.Total, mem.Free, mode == nvml.DEVICE_MIG_ENABLE
		if d.Readings, err = readings(lib, dev); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		inv.Devices = append(inv.Devices, d)
	}
	return inv, nil
}

// matrixPrecisions returns the precisions with tensor cores of an architecture; it
// agrees with Backend.products.
//
// Source: NVIDIA, CUDA C++ Programming Guide, compute capabilities.
func matrixPrecisions(architecture int) []string {
	switch {
	case architecture >= firstBF16:
		return []string{"bf16", "f16", "tf32"}
	case architecture >= firstQuads:
		return []string{"f16"}
	}
	return []string{}
}

// versions returns the version of the driver and of the newest CUDA that it supports.
func versions(lib nvml.Interface) (driver, cuda string, err error) {
	ask := errorOf(lib)
	driver, ret := lib.SystemGetDriverVersion()
	if err := ask("driver version", ret); err != nil {
		return "", "", err
	}
	version, ret := lib.SystemGetCudaDriverVersion() // 12080 is 12.8
	if err := ask("CUDA version of the driver", ret); err != nil {
		return "", "", err
	}
	libraries.SetDriverCUDA(version / 1000)
	return driver, fmt.Sprintf("%d.%d", version/1000, version%1000/10), nil
}
