//go:build cgo && linux

package gpu

/*
#cgo noescape ens_call_run
#cgo nocallback ens_call_run
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
)

// Load compiles a program for this device, or takes it from the user's cache.
//
// A program with the same source and macros is loaded once.
//
// Errors: the log of the compiler or of the driver; errRecording while recording.
func (d *gpu) Load(p device.Program) (device.Module, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if d.recordingID != 0 {
		return nil, errRecording
	}
	key := strings.Join(append([]string{p.Name, p.Source}, p.Defines...), "\x00")
	if m := d.modules[key]; m != nil {
		return m, nil
	}
	image, err := nvrtc.UserCache().Compile(d.compiler, p, d.properties.Architecture)
	if err != nil {
		return nil, err
	}
	m := &module{d: d, name: p.Name, shared: map[C.CUfunction]int{}}
	var log [4096]C.char
	if rc := C.ens_gpu_load(d.c, unsafe.Pointer(unsafe.SliceData(image)), &log[0], C.uint(len(log)), &m.c); rc != 0 {
		err := d.fail(rc, "load "+p.Name)
		if text := strings.TrimSpace(C.GoString(&log[0])); text != "" {
			err = fmt.Errorf("%w\n%s", err, text)
		}
		return nil, err
	}
	d.modules[key] = m
	return m, nil
}

// module is a loaded program.
type module struct {
	d      *gpu
	c      C.CUmodule
	name   string
	shared map[C.CUfunction]int // largest dynamic shared memory of all calls, by kernel
}

// Limits of all devices of compute capability 3.0 and later.
//
// Source: NVIDIA, CUDA C++ Programming Guide, table "Technical Specifications per
// Compute Capability".
const (
	maxThreads   = 1024
	maxGridX     = math.MaxInt32
	maxGridYZ    = math.MaxUint16
	sharedBytes  = 48 << 10 // of a block, without opting in to more
	maxArguments = 512      // 4096 bytes, eight bytes each
)

// Call prepares a call. Its arguments are in memory of C until the device is closed.
//
// Errors: an unknown kernel; arguments that do not match its parameters; a size beyond
// the limits of the device or of the kernel's registers.
// Cost: Run of the call allocates nothing and passes no Go memory to C.
func (m *module) Call(kernel string, size device.Size, args ...any) (device.Call, error) {
	fail := func(err error) (device.Call, error) {
		return nil, fmt.Errorf("%s: kernel %s: %w", m.name, kernel, err)
	}
	if err := m.d.ready(); err != nil {
		return fail(err)
	}
	name := C.CString(kernel)
	defer C.free(unsafe.Pointer(name))
	var f C.CUfunction
	switch rc := C.ens_gpu_function(m.d.c, m.c, name, &f); rc {
	case 0:
	case C.ENS_CUDA_ERROR_NOT_FOUND:
		return fail(errors.New("the program has no kernel of this name"))
	default:
		return fail(m.d.fail(rc, "cuModuleGetFunction"))
	}
	values, kinds, err := device.PackArguments(args)
	if err != nil {
		return fail(err)
	}
	if err := m.parameters(f, kinds); err != nil {
		return fail(err)
	}
	if err := m.fits(f, size); err != nil {
		return fail(err)
	}
	var dims [6]C.uint
	for i := range 3 {
		dims[i], dims[3+i] = C.uint(max(size.Grid[i], 1)), C.uint(max(size.Block[i], 1))
	}
	values = append(values, 0) // never empty
	c := C.ens_call_new(m.d.c, f, &dims[0], C.uint(size.Shared), (*C.ulonglong)(unsafe.Pointer(&values[0])), C.int(len(args)))
	if c == nil {
		return fail(errHost)
	}
	m.d.calls = append(m.d.calls, c)
	return &call{d: m.d, c: c, name: m.name + ": " + kernel}, nil
}

// parameters compares the arguments with the parameters of the kernel, if the driver
// reports them. Drivers before CUDA 12.4 do not; then nothing is compared. kinds has a
// letter for each argument (device.PackArguments), of which i, u and f are four bytes.
func (m *module) parameters(f C.CUfunction, kinds string) error {
	if len(kinds) > maxArguments {
		return fmt.Errorf("%d arguments, want at most %d", len(kinds), maxArguments)
	}
	var sizes [maxArguments + 1]C.size_t
	n := int(C.ens_gpu_parameters(m.d.c, f, &sizes[0], C.int(len(sizes))))
	if n < 0 {
		return nil
	}
	if n != len(kinds) {
		return fmt.Errorf("%d arguments for %d parameters", len(kinds), n)
	}
	for i, k := range kinds {
		want := 8
		if strings.ContainsRune("iuf", k) {
			want = 4
		}
		if int(sizes[i]) != want {
			return fmt.Errorf("argument %d: got %d bytes, want %d", i, want, int(sizes[i]))
		}
	}
	return nil
}

// fits checks the size of a call, and opts in to the shared memory that it needs.
//
// Errors: the limit that is exceeded; an error of the driver.
func (m *module) fits(f C.CUfunction, size device.Size) error {
	threads := 1
	for i := range 3 {
		if size.Grid[i] < 0 || size.Block[i] < 0 || size.Block[i] > maxThreads {
			return fmt.Errorf("grid %v of blocks %v", size.Grid, size.Block)
		}
		threads *= max(size.Block[i], 1)
	}
	if size.Grid[0] > maxGridX || max(size.Grid[1], size.Grid[2]) > maxGridYZ {
		return fmt.Errorf("grid of %v blocks, want at most %d, and %d along y and z", size.Grid, maxGridX, maxGridYZ)
	}
	var most, fixed C.int
	for attribute, value := range map[C.int]*C.int{C.ENS_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: &most, C.ENS_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: &fixed} {
		if rc := C.ens_gpu_function_attribute(m.d.c, f, attribute, value); rc != 0 {
			return m.d.fail(rc, fmt.Sprintf("cuFuncGetAttribute %d", int(attribute)))
		}
	}
	if threads > int(most) {
		return fmt.Errorf("blocks of %d threads, want at most %d because of registers or launch bounds", threads, int(most))
	}
	if limit := m.d.properties.SharedBytes; size.Shared < 0 || size.Shared+int(fixed) > limit {
		return fmt.Errorf("blocks with %d bytes of dynamic and %d bytes of static shared memory, want at most %d in all", size.Shared, int(fixed), limit)
	}
	// Calls of one kernel share the limit: it only grows.
	if size.Shared+int(fixed) > sharedBytes && size.Shared > m.shared[f] {
		if rc := C.ens_gpu_function_shared(m.d.c, f, C.int(size.Shared)); rc != 0 {
			return m.d.fail(rc, fmt.Sprintf("cuFuncSetAttribute of %d bytes of shared memory", size.Shared))
		}
		m.shared[f] = size.Shared
	}
	return nil
}

// call is a prepared call of a kernel.
type call struct {
	d    *gpu
	c    *C.ens_call
	name string
}

// Run enqueues the call.
//
// Errors: a launch that the driver rejects; a failure of earlier work.
func (c *call) Run() error {
	if err := c.d.ready(); err != nil {
		return err
	}
	c.d.last = c.name
	if rc := C.ens_call_run(c.c); rc != 0 {
		return c.d.fail(rc, "cuLaunchKernel of "+c.name)
	}
	return nil
}
