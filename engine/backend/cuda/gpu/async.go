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

// event is a copy, or work of a library, that runs in a stream of its own.
type event struct {
	record int       // the recording that it is part of; 0 for none
	done   C.CUevent // marks its end; another ticket has it after the Join
	joined bool
}

// CopyAsync copies in the stream of its direction, which waits for the work so far.
func (d *gpu) CopyAsync(dst, src device.Pointer, bytes int64) (device.Event, error) {
	return d.copyAsync(dst, src, bytes, 1)
}

// CopyNow copies in the stream of its direction, behind what is there.
func (d *gpu) CopyNow(dst, src device.Pointer, bytes int64) (device.Event, error) {
	if d.recordingID != 0 {
		return nil, errRecording
	}
	return d.copyAsync(dst, src, bytes, 0)
}

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
	if rc := C.ens_gpu_copy_aside(d.c, dst, src, C.size_t(bytes), from, behind, t.done); rc != 0 {
		return nil, d.fail(rc, fmt.Sprintf("copy of %d bytes aside", bytes))
	}
	return d.begin(t), nil
}

// newEvent makes one of an event that nothing needs.
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

// begin takes the event of a ticket whose work was asked for.
func (d *gpu) begin(t *event) *event {
	d.freeEvents = d.freeEvents[:len(d.freeEvents)-1]
	if d.recordingID != 0 {
		d.unjoined = append(d.unjoined, t)
	}
	return t
}

// RunAsync has f ask for work in the stream of libraries, which waits for the work so far.
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
	failed := f(device.Pointer(d.c.aside[C.ENS_ASIDE-1]))
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

// isHost tells whether an address lies in memory of AllocHost.
func (d *gpu) isHost(p device.Pointer) bool {
	for base, bytes := range d.host {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(bytes) {
			return true
		}
	}
	return false
}

// Join has the stream of work wait for the end of what runs aside. A second Join does nothing, since
// all later work is behind the first.
func (d *gpu) Join(t device.Event) error {
	if err := d.ready(); err != nil {
		return err
	}
	c, ok := t.(*event)
	switch {
	case !ok:
		return fmt.Errorf("GPU %d: a %T is no work of this device", d.index, t)
	case c.joined:
		return nil
	case c.record != d.recordingID:
		return fmt.Errorf("GPU %d: what runs aside is joined in another recording than it was begun in", d.index)
	}
	if rc := C.ens_gpu_join(d.c, c.done); rc != 0 {
		return d.fail(rc, "cuStreamWaitEvent")
	}
	d.release(c)
	return nil
}

// release lets other copies have the event of one: what waits for it knows what it marked.
func (d *gpu) release(t *event) {
	t.joined = true
	d.freeEvents = append(d.freeEvents, t.done)
	d.unjoined = slices.DeleteFunc(d.unjoined, func(b *event) bool { return b == t })
}
