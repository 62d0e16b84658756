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

// ticket is a copy, or work of a library, that runs in a stream of its own.
type ticket struct {
	record int       // the recording that it is part of; 0 for none
	done   C.CUevent // marks its end; another ticket has it after the Join
	joined bool
}

// CopyAside copies in the stream of its direction, which waits for the work so far.
func (d *gpu) CopyAside(dst, src device.Pointer, bytes int64) (device.Ticket, error) {
	return d.aside(dst, src, bytes, 1)
}

// CopyNow copies in the stream of its direction, behind what is there.
func (d *gpu) CopyNow(dst, src device.Pointer, bytes int64) (device.Ticket, error) {
	if d.record != 0 {
		return nil, errRecording
	}
	return d.aside(dst, src, bytes, 0)
}

func (d *gpu) aside(dst, src device.Pointer, bytes int64, behind C.int) (device.Ticket, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return &ticket{joined: true}, d.empty(bytes)
	}
	t, err := d.ticket()
	if err != nil {
		return nil, err
	}
	var from C.int
	if d.ofHost(dst) {
		from = 1
	}
	if rc := C.ens_gpu_copy_aside(d.c, dst, src, C.size_t(bytes), from, behind, t.done); rc != 0 {
		return nil, d.fail(rc, fmt.Sprintf("copy of %d bytes aside", bytes))
	}
	return d.begin(t), nil
}

// ticket makes one of an event that nothing needs.
func (d *gpu) ticket() (*ticket, error) {
	if len(d.spare) == 0 {
		var e C.CUevent
		if rc := C.ens_gpu_event(d.c, &e); rc != 0 {
			return nil, d.fail(rc, "cuEventCreate")
		}
		d.events, d.spare = append(d.events, e), append(d.spare, e)
	}
	return &ticket{record: d.record, done: d.spare[len(d.spare)-1]}, nil
}

// begin takes the event of a ticket whose work was asked for.
func (d *gpu) begin(t *ticket) *ticket {
	d.spare = d.spare[:len(d.spare)-1]
	if d.record != 0 {
		d.begun = append(d.begun, t)
	}
	return t
}

// Beside has f ask for work in the stream of libraries, which waits for the work so far.
func (d *gpu) Beside(f func(stream device.Pointer) error) (device.Ticket, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	t, err := d.ticket()
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

// ofHost tells whether an address lies in memory of AllocHost.
func (d *gpu) ofHost(p device.Pointer) bool {
	for base, bytes := range d.host {
		if uintptr(p) >= uintptr(base) && uintptr(p) < uintptr(base)+uintptr(bytes) {
			return true
		}
	}
	return false
}

// Join has the stream of work wait for the end of what runs aside. A second Join does nothing, since
// all later work is behind the first.
func (d *gpu) Join(t device.Ticket) error {
	if err := d.ready(); err != nil {
		return err
	}
	c, ok := t.(*ticket)
	switch {
	case !ok:
		return fmt.Errorf("GPU %d: a %T is no work of this device", d.index, t)
	case c.joined:
		return nil
	case c.record != d.record:
		return fmt.Errorf("GPU %d: what runs aside is joined in another recording than it was begun in", d.index)
	}
	if rc := C.ens_gpu_join(d.c, c.done); rc != 0 {
		return d.fail(rc, "cuStreamWaitEvent")
	}
	d.release(c)
	return nil
}

// release lets other copies have the event of one: what waits for it knows what it marked.
func (d *gpu) release(t *ticket) {
	t.joined = true
	d.spare = append(d.spare, t.done)
	d.begun = slices.DeleteFunc(d.begun, func(b *ticket) bool { return b == t })
}
