//go:build cgo && linux

package gpu

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// event marks the end of a copy, or of work of a library, in a second stream.
type event struct {
	record int       // the recording that it belongs to; 0 if none
	done   C.CUevent // CUDA event; reused after Join
	joined bool
}

// CopyAsync copies in the stream of its direction, which waits for the work enqueued so
// far.
//
// Copies to and from the device have a stream each, so both directions of the bus work
// at the same time.
//
// Errors: those of the driver; a device that is closed or lost.
func (d *gpu) CopyAsync(dst, src device.Pointer, bytes int64) (device.Event, error) {
	return d.copyAsync(dst, src, bytes, 1)
}

// CopyNow copies in the stream of its direction, after earlier copies there.
//
// The caller guarantees that no enqueued work uses the memory.
func (d *gpu) CopyNow(dst, src device.Pointer, bytes int64) (device.Event, error) {
	if d.recordingID != 0 {
		return nil, errRecording
	}
	return d.copyAsync(dst, src, bytes, 0)
}

// copyAsync enqueues a copy in the stream of its direction. With behind = 1 that stream
// waits for the main one.
//
// Source: NVIDIA, CUDA Driver API, cuMemcpyAsync, cuStreamWaitEvent.
func (d *gpu) copyAsync(dst, src device.Pointer, bytes int64, behind C.int) (device.Event, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return &event{joined: true}, d.empty(bytes)
	}
	t, err := d.newEvent()
	if err != nil {
		return nil, err
	}
	var from C.int
	if d.isHost(dst) {
		from = 1
	}
	if rc := C.ens_gpu_copy_async(d.c, dst, src, C.size_t(bytes), from, behind, t.done); rc != 0 {
		return nil, d.fail(rc, fmt.Sprintf("asynchronous copy of %d bytes", bytes))
	}
	return d.begin(t), nil
}

// newEvent returns an event with an unused CUDA event. It stays in the list of unused
// ones until begin, so that an error of the enqueued work does not lose it.
//
// Cost: after the first steps of a plan no event is created any more.
func (d *gpu) newEvent() (*event, error) {
	if len(d.freeEvents) == 0 {
		var e C.CUevent
		if rc := C.ens_gpu_event(d.c, &e); rc != 0 {
			return nil, d.fail(rc, "cuEventCreate")
		}
		d.events, d.freeEvents = append(d.events, e), append(d.freeEvents, e)
	}
	return &event{record: d.recordingID, done: d.freeEvents[len(d.freeEvents)-1]}, nil
}

// begin takes the CUDA event of an event whose work is enqueued. In a recording it must
// be joined before the end (Record).
func (d *gpu) begin(t *event) *event {
	d.freeEvents = d.freeEvents[:len(d.freeEvents)-1]
	if d.recordingID != 0 {
		d.unjoined = append(d.unjoined, t)
	}
	return t
}

// RunAsync calls f to enqueue work in the stream of libraries, which waits for the work
// enqueued so far.
//
// Errors: that of f, after its stream was joined; those of the driver.
func (d *gpu) RunAsync(f func(stream device.Pointer) error) (device.Event, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	t, err := d.newEvent()
	if err != nil {
		return nil, err
	}
	if rc := C.ens_gpu_fork(d.c); rc != 0 {
		return nil, d.fail(rc, "cuStreamWaitEvent")
	}
	failed := f(device.Pointer(d.c.side[C.ENS_SIDE_STREAMS-1]))
	// Also behind work that failed: in a recording the stream has to be joined.
	if rc := C.ens_gpu_mark(d.c, t.done); rc != 0 {
		return nil, errors.Join(failed, d.fail(rc, "cuEventRecord"))
	}
	d.begin(t)
	if failed != nil {
		return nil, errors.Join(failed, d.Join(t))
	}
	return t, nil
}

// isHost reports whether an address is in memory from AllocHost. The number of such
// allocations is small, so a map is searched linearly.
func (d *gpu) isHost(p device.Pointer) bool {
	for base, bytes := range d.host {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(bytes) {
			return true
		}
	}
	return false
}

// Join makes the main stream wait for an event. A second Join does nothing, because all
// later work follows the first.
//
// Errors: an event of another device or recording; those of the driver.
func (d *gpu) Join(t device.Event) error {
	if err := d.ready(); err != nil {
		return err
	}
	c, ok := t.(*event)
	switch {
	case !ok:
		return fmt.Errorf("GPU %d: Join of a %T, want an event of this device", d.index, t)
	case c.joined:
		return nil
	case c.record != d.recordingID:
		return fmt.Errorf("GPU %d: Join in another recording than the start of the copy or library call", d.index)
	}
	if rc := C.ens_gpu_join(d.c, c.done); rc != 0 {
		return d.fail(rc, "cuStreamWaitEvent")
	}
	d.release(c)
	return nil
}

// release makes the CUDA event available again: work that waits for it has stored its
// state.
func (d *gpu) release(t *event) {
	t.joined = true
	d.freeEvents = append(d.freeEvents, t.done)
	d.unjoined = slices.DeleteFunc(d.unjoined, func(b *event) bool { return b == t })
}
