//go:build cgo && linux

package gpu

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// The oldest driver that supports NVRTC of CUDA 12.
const (
	minDriver     = 12000
	minDriverName = "525 (CUDA 12.0)"
)

// unavailable returns the error of a driver or GPU that cannot be used.
func unavailable(at, why, fix string, cause error) error {
	return &exit.Error{Code: exit.NoDevice, What: "cannot use a GPU", At: at, Why: why, Fix: fix, Err: fmt.Errorf("%w: %w", device.ErrNoDevice, cause)}
}

// bind opens the driver library, binds its functions to t, initialises it, and returns
// the number of devices.
//
// Errors: *exit.Error (exit.NoDevice) that wraps device.ErrNoDevice, for a missing
// library or function, a driver that does not start, and one that is too old.
func bind(t *C.ens_cuda) (int, error) {
	lib, err := libraries.Find(libraries.Driver)
	if err != nil {
		var e *exit.Error
		if !errors.As(err, &e) {
			return 0, err
		}
		return 0, unavailable(e.At, e.Why, e.Fix, err)
	}
	at := lib.Path()
	var missing [64]*C.char
	if n := int(C.ens_cuda_bind(t, lib.Handle(), &missing[0], C.int(len(missing)))); n > 0 {
		var names []string
		for _, p := range missing[:n] {
			names = append(names, C.GoString(p))
		}
		return 0, unavailable(at, "it lacks "+strings.Join(names, ", "), "update the NVIDIA driver to "+minDriverName+" or later", dl.ErrNoSymbol)
	}
	var count, version C.int
	if rc := C.ens_cuda_init(t, &count); rc != 0 {
		fix := "run `nvidia-smi`: it shows what is wrong with the driver"
		if v, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); set && rc == C.ENS_CUDA_ERROR_NO_DEVICE {
			fix = fmt.Sprintf("CUDA_VISIBLE_DEVICES is %q: unset it, or name an existing GPU", v)
		}
		return 0, unavailable(at, "cuInit: "+status(t, rc), fix, errors.New(status(t, rc)))
	}
	if rc := C.ens_cuda_version(t, &version); rc != 0 {
		return 0, unavailable(at, "cuDriverGetVersion: "+status(t, rc), "", errors.New(status(t, rc)))
	}
	if version < minDriver {
		why := fmt.Sprintf("the driver supports CUDA %d.%d", version/1000, version%1000/10)
		return 0, unavailable(at, why, "update the NVIDIA driver to "+minDriverName+" or later", errors.New(why))
	}
	libraries.SetDriverCUDA(int(version) / 1000)
	return int(count), nil
}

// status returns the name and text of a driver code. Such as "CUDA_ERROR_OUT_OF_MEMORY
// (out of memory)".
func status(t *C.ens_cuda, rc C.int) string {
	name, text := C.GoString(C.ens_cuda_name(t, rc)), C.GoString(C.ens_cuda_text(t, rc))
	if name == "" {
		return fmt.Sprintf("CUDA error %d", int(rc))
	}
	if text == "" {
		return name
	}
	return name + " (" + text + ")"
}

// isFatal reports whether the driver accepts no more work in a context after a code.
// After the others, such as an invalid argument, work continues.
//
// Source: NVIDIA, CUDA Driver API, CUresult: codes that leave the process in an
// inconsistent state.
func isFatal(rc C.int) bool {
	switch rc {
	case C.ENS_CUDA_ERROR_DEINITIALIZED, C.ENS_CUDA_ERROR_ECC_UNCORRECTABLE, C.ENS_CUDA_ERROR_NVLINK_UNCORRECTABLE, C.ENS_CUDA_ERROR_CONTAINED,
		C.ENS_CUDA_ERROR_ILLEGAL_ADDRESS, C.ENS_CUDA_ERROR_LAUNCH_TIMEOUT, C.ENS_CUDA_ERROR_CONTEXT_IS_DESTROYED, C.ENS_CUDA_ERROR_ASSERT,
		C.ENS_CUDA_ERROR_HARDWARE_STACK_ERROR, C.ENS_CUDA_ERROR_ILLEGAL_INSTRUCTION, C.ENS_CUDA_ERROR_MISALIGNED_ADDRESS,
		C.ENS_CUDA_ERROR_INVALID_ADDRESS_SPACE, C.ENS_CUDA_ERROR_INVALID_PC, C.ENS_CUDA_ERROR_LAUNCH_FAILED, C.ENS_CUDA_ERROR_TENSOR_MEMORY_LEAK,
		C.ENS_CUDA_ERROR_MPS_CLIENT_TERMINATED, C.ENS_CUDA_ERROR_EXTERNAL_DEVICE, C.ENS_CUDA_ERROR_UNKNOWN:
		return true
	}
	return false
}
