//go:build cgo && linux

package gpu

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/nvrtc"
)

// opening guards the initialisation of the driver and the numbers of devices.
var opening sync.Mutex

// Count returns the number of GPUs that the driver lets this process use
// (CUDA_VISIBLE_DEVICES). No context is created, so the call takes no memory of a GPU.
//
// Errors: *exit.Error (exit.NoDevice) that wraps device.ErrNoDevice.
func Count() (int, error) {
	opening.Lock()
	defer opening.Unlock()
	t := (*C.ens_cuda)(C.calloc(1, C.sizeof_ens_cuda))
	defer C.free(unsafe.Pointer(t))
	return bind(t)
}

// gpu is an open device. One goroutine uses it at a time, on the thread where its
// context is current.
type gpu struct {
	c           *C.ens_gpu // nil after Close
	index       int
	properties  device.Properties
	memory      map[device.Pointer]int64 // allocations on the device, with their sizes
	host        map[device.Pointer]int64 // allocations on the host, with their sizes
	modules     map[string]*module       // by program
	calls       []*C.ens_call
	recordings  map[*recording]bool
	events      []C.CUevent // all CUDA events
	freeEvents  []C.CUevent // unused CUDA events
	unjoined    []*event    // events of the current recording without Join
	recordingID int         // number of the current recording; 0 if there is none
	recorded    int         // number of recordings so far
	compiler    *nvrtc.Compiler
	last        string // last call, for errors
	lost        error  // error after which the device accepts no work
}

// gpu implements these interfaces.
var (
	_ device.Device        = (*gpu)(nil)
	_ device.NativeHandles = (*gpu)(nil)
	_ device.AsyncRunner   = (*gpu)(nil)
	_ device.Profiler      = (*gpu)(nil)
)

// Open opens the GPU with the given index among those that the driver lets this process
// use.
//
// The primary context is retained and not created, because cuDNN and NCCL use it too.
//
// Errors: *exit.Error (exit.NoDevice) that wraps device.ErrNoDevice, with the reason, or
// that NVRTC is missing.
func Open(index int) (device.Device, error) {
	opening.Lock()
	defer opening.Unlock()
	c := (*C.ens_gpu)(C.calloc(1, C.sizeof_ens_gpu))
	if c == nil {
		return nil, fmt.Errorf("open GPU %d: %w", index, errHost)
	}
	d := &gpu{c: c, index: index, memory: map[device.Pointer]int64{}, host: map[device.Pointer]int64{}, modules: map[string]*module{}, recordings: map[*recording]bool{}}
	if err := d.open(); err != nil {
		C.free(unsafe.Pointer(c))
		return nil, err
	}
	if err := d.describe(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	// A device that can run nothing of ours is of no use: so opening it fails.
	var err error
	if d.compiler, err = nvrtc.Open(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// open initialises the driver and retains the primary context.
//
// Errors: as Open.
func (d *gpu) open() error {
	count, err := bind(&d.c.cu)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("GPU %d", d.index)
	if d.index < 0 || d.index >= count {
		why := fmt.Sprintf("there are %d, counted from 0", count)
		return unavailable(at, why, "CUDA_VISIBLE_DEVICES decides which this process sees", errors.New(why))
	}
	var what *C.char
	if rc := C.ens_gpu_open(d.c, C.int(d.index), &what); rc != 0 {
		s := status(&d.c.cu, rc)
		return unavailable(at, C.GoString(what)+": "+s, "run `nvidia-smi`: it shows the processes that use the GPU, and its compute mode", errors.New(s))
	}
	return nil
}

// describe reads the properties of the device.
//
// Shared memory is the limit of a block that opts in to more than 48 KiB.
//
// Errors: those of the driver; a GPU without unified addressing, on which a copy could
// not see the kind of memory from an address.
func (d *gpu) describe() error {
	var name [256]C.char
	if rc := C.ens_gpu_name(d.c, &name[0], C.int(len(name))); rc != 0 {
		return d.fail(rc, "cuDeviceGetName")
	}
	var id [16]C.uchar
	if rc := C.ens_gpu_uuid(d.c, &id[0]); rc != 0 {
		return d.fail(rc, "cuDeviceGetUuid")
	}
	var total C.size_t
	if rc := C.ens_gpu_total(d.c, &total); rc != 0 {
		return d.fail(rc, "cuDeviceTotalMem")
	}
	var major, minor, processors, shared, clock, width, unified C.int
	for _, q := range []struct {
		attribute C.int
		value     *C.int
	}{
		{C.ENS_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
		{C.ENS_CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
		{C.ENS_CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &processors},
		{C.ENS_CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared},
		{C.ENS_CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &clock},
		{C.ENS_CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &width},
		{C.ENS_CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &unified},
	} {
		if rc := C.ens_gpu_attribute(d.c, q.attribute, q.value); rc != 0 {
			return d.fail(rc, fmt.Sprintf("cuDeviceGetAttribute %d", int(q.attribute)))
		}
	}
	if unified == 0 {
		why := "the GPU does not share addresses with the host (no unified addressing)"
		return unavailable(fmt.Sprintf("GPU %d", d.index), why, "use another GPU (CUDA_VISIBLE_DEVICES)", errors.New(why))
	}
	d.properties = device.Properties{
		Name:            C.GoString(&name[0]),
		UUID:            fmt.Sprintf("GPU-%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]),
		Architecture:    10*int(major) + int(minor),
		Multiprocessors: int(processors),
		SharedBytes:     int(shared),
		MemoryBytes:     int64(total),
		// The clock is in kHz, and data move at both of its edges.
		MemoryBandwidth: 2 * float64(clock) * 1e3 * float64(width) / 8,
	}
	return nil
}

var (
	errClosed          = errors.New("the device is closed")
	errRecordingClosed = errors.New("the recording is closed")
	errRecording       = errors.New("not possible while recording")
	errHost            = errors.New("out of host memory")
)

// fail returns the error of a failed driver call. After some codes the device is lost:
// they report a failure of earlier work. Failures of kernels are asynchronous, so the
// call that reports one is rarely its cause; the last call narrows it.
func (d *gpu) fail(rc C.int, what string) error {
	err := fmt.Errorf("GPU %d: %s: %s", d.index, what, status(&d.c.cu, rc))
	if !isFatal(rc) {
		return err
	}
	if d.lost == nil {
		last := "there was no call before"
		if d.last != "" {
			last = "the last call was " + d.last
		}
		d.lost = fmt.Errorf("%w: %w; %s; set CUDA_LAUNCH_BLOCKING=1 to find the call that fails", device.ErrLost, err, last)
	}
	return d.lost
}

// ready returns the reason why the device accepts no work; nil if it does.
func (d *gpu) ready() error {
	if d.c == nil {
		return errClosed
	}
	return d.lost
}

// Properties returns the properties read by Open.
func (d *gpu) Properties() device.Properties { return d.properties }

// Stream returns the CUstream of the main stream.
func (d *gpu) Stream() device.Pointer {
	if d.c == nil {
		return nil
	}
	return device.Pointer(d.c.stream)
}

// Context returns the primary CUcontext.
func (d *gpu) Context() device.Pointer {
	if d.c == nil {
		return nil
	}
	return device.Pointer(d.c.context)
}

// MakeCurrent makes the context current on the calling OS thread.
func (d *gpu) MakeCurrent() error {
	if err := d.ready(); err != nil {
		return err
	}
	if rc := C.ens_gpu_enter(d.c); rc != 0 {
		return d.fail(rc, "cuCtxSetCurrent")
	}
	return nil
}

// FreeBytes returns the free memory of the device.
func (d *gpu) FreeBytes() (int64, error) {
	free, _, err := d.memoryInfo()
	return free, err
}

// memoryInfo returns the free and the total memory.
//
// Unit: bytes, of the whole device: other processes use it too.
func (d *gpu) memoryInfo() (free, total int64, err error) {
	if err := d.ready(); err != nil {
		return 0, 0, err
	}
	var f, t C.size_t
	if rc := C.ens_gpu_memory(d.c, &f, &t); rc != 0 {
		return 0, 0, d.fail(rc, "cuMemGetInfo")
	}
	return int64(f), int64(t), nil
}

// Alloc allocates memory of the device.
//
// Errors: device.ErrOutOfMemory with the free memory; those of the driver.
func (d *gpu) Alloc(bytes int64) (device.Pointer, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if bytes < 0 {
		return nil, fmt.Errorf("GPU %d: Alloc of %d bytes, want 0 or more", d.index, bytes)
	}
	var p unsafe.Pointer
	switch rc := C.ens_gpu_alloc(d.c, C.size_t(max(bytes, 1)), &p); rc {
	case 0:
		d.memory[p] = bytes
		return p, nil
	case C.ENS_CUDA_ERROR_OUT_OF_MEMORY:
		free, total, err := d.memoryInfo()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("GPU %d: %w: %d bytes requested", d.index, device.ErrOutOfMemory, bytes), err)
		}
		return nil, fmt.Errorf("GPU %d: %w: %d bytes requested, %d of %d free", d.index, device.ErrOutOfMemory, bytes, free, total)
	default:
		return nil, d.fail(rc, "cuMemAlloc")
	}
}

// Free waits for all work and frees memory.
//
// Enqueued kernels may still use the memory, hence the wait. nil is no error.
func (d *gpu) Free(p device.Pointer) error {
	if p == nil {
		return nil
	}
	if err := d.ready(); err != nil {
		return err
	}
	if _, ok := d.memory[p]; !ok {
		return fmt.Errorf("GPU %d: Free of memory that was not allocated", d.index)
	}
	if err := d.Wait(); err != nil {
		return err
	}
	if rc := C.ens_gpu_free(d.c, p); rc != 0 {
		return d.fail(rc, "cuMemFree")
	}
	delete(d.memory, p)
	return nil
}

// AllocHost allocates page-locked memory of the host. Only such memory is copied
// asynchronously; it cannot be swapped, so too much of it slows the machine down.
func (d *gpu) AllocHost(bytes int64) (device.Pointer, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if bytes < 0 {
		return nil, fmt.Errorf("GPU %d: AllocHost of %d bytes, want 0 or more", d.index, bytes)
	}
	var p unsafe.Pointer
	switch rc := C.ens_gpu_alloc_host(d.c, C.size_t(max(bytes, 1)), &p); rc {
	case 0:
		d.host[p] = bytes
		return p, nil
	case C.ENS_CUDA_ERROR_OUT_OF_MEMORY:
		return nil, fmt.Errorf("GPU %d: %w for page-locked memory: %d bytes requested", d.index, errHost, bytes)
	default:
		return nil, d.fail(rc, "cuMemHostAlloc")
	}
}

// FreeHost waits for all work and frees memory.
func (d *gpu) FreeHost(p device.Pointer) error {
	if p == nil {
		return nil
	}
	if err := d.ready(); err != nil {
		return err
	}
	if _, ok := d.host[p]; !ok {
		return fmt.Errorf("GPU %d: FreeHost of memory that was not allocated", d.index)
	}
	if err := d.Wait(); err != nil {
		return err
	}
	if rc := C.ens_gpu_free_host(d.c, p); rc != 0 {
		return d.fail(rc, "cuMemFreeHost")
	}
	delete(d.host, p)
	return nil
}

// Copy copies between memories of any kind. Pageable host memory is read or written
// before Copy returns, after all earlier work.
//
// Source: NVIDIA, CUDA Driver API, section "API synchronization behavior".
func (d *gpu) Copy(dst, src device.Pointer, bytes int64) error {
	if err := d.ready(); err != nil {
		return err
	}
	if bytes <= 0 {
		return d.empty(bytes)
	}
	if rc := C.ens_gpu_copy(d.c, dst, src, C.size_t(bytes)); rc != 0 {
		return d.fail(rc, fmt.Sprintf("cuMemcpyAsync of %d bytes", bytes))
	}
	return nil
}

// Zero sets memory of the device to zero.
func (d *gpu) Zero(p device.Pointer, bytes int64) error {
	if err := d.ready(); err != nil {
		return err
	}
	if bytes <= 0 {
		return d.empty(bytes)
	}
	if rc := C.ens_gpu_zero(d.c, p, C.size_t(bytes)); rc != 0 {
		return d.fail(rc, fmt.Sprintf("cuMemsetD8Async of %d bytes", bytes))
	}
	return nil
}

// empty handles work on no bytes, which the driver rejects.
func (d *gpu) empty(bytes int64) error {
	if bytes < 0 {
		return fmt.Errorf("GPU %d: Copy or Zero of %d bytes, want 0 or more", d.index, bytes)
	}
	return nil
}

// Wait blocks until all work is done.
//
// Errors: errRecording while recording; a failure of any earlier work, after which the
// device is lost.
func (d *gpu) Wait() error {
	if err := d.ready(); err != nil {
		return err
	}
	if d.recordingID != 0 {
		return errRecording
	}
	if rc := C.ens_gpu_wait(d.c); rc != 0 {
		return d.fail(rc, "cuStreamSynchronize")
	}
	return nil
}

// Time measures with CUDA events, with a resolution of about 1 µs.
//
// The result is in seconds, from the begin of the first work that f enqueues to the end
// of the last. It waits for all.
func (d *gpu) Time(f func() error) (float64, error) {
	if err := d.ready(); err != nil {
		return 0, err
	}
	if d.recordingID != 0 {
		return 0, errRecording
	}
	if rc := C.ens_gpu_start_clock(d.c); rc != 0 {
		return 0, d.fail(rc, "cuEventRecord")
	}
	if err := f(); err != nil {
		return 0, err
	}
	var milliseconds C.float
	if rc := C.ens_gpu_stop_clock(d.c, &milliseconds); rc != 0 {
		return 0, d.fail(rc, "cuEventSynchronize")
	}
	return float64(milliseconds) / 1e3, nil
}

// Close frees everything in reverse order of its creation, even after errors.
//
// Errors: those of driver calls; none if the device is lost, because then each call
// returns the error that lost it.
func (d *gpu) Close() error {
	opening.Lock()
	defer opening.Unlock()
	return d.close()
}

// close is Close for a caller that holds opening. Memory of arguments is freed last,
// since calls refer to it.
func (d *gpu) close() error {
	if d.c == nil {
		return nil
	}
	var errs []error
	check := func(rc C.int, what string) {
		if rc != 0 && d.lost == nil {
			errs = append(errs, d.fail(rc, what))
		}
	}
	check(C.ens_gpu_wait(d.c), "cuStreamSynchronize")
	for r := range d.recordings {
		check(C.ens_gpu_forget(d.c, r.exec), "cuGraphExecDestroy")
		r.exec = nil
	}
	for _, e := range d.events {
		check(C.ens_gpu_event_forget(d.c, e), "cuEventDestroy")
	}
	for _, m := range d.modules {
		check(C.ens_gpu_unload(d.c, m.c), "cuModuleUnload")
	}
	for p := range d.memory {
		check(C.ens_gpu_free(d.c, p), "cuMemFree")
	}
	for p := range d.host {
		check(C.ens_gpu_free_host(d.c, p), "cuMemFreeHost")
	}
	var what *C.char
	if rc := C.ens_gpu_close(d.c, &what); rc != 0 {
		check(rc, C.GoString(what))
	}
	for _, c := range d.calls {
		C.free(unsafe.Pointer(c))
	}
	C.free(unsafe.Pointer(d.c))
	d.c = nil
	return errors.Join(errs...)
}
