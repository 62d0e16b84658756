//go:build cgo && linux

package gpu

/*
#cgo noescape ens_gpu_replay
#cgo nocallback ens_gpu_replay
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

// Record captures the work that f enqueues as a CUDA graph.
//
// Launching a graph costs a few microseconds, where single kernels cost as much each.
//
// Errors: that of f; copies that were not joined; those of the driver.
// Source: NVIDIA, CUDA Driver API, section "Graph Management" (stream capture).
func (d *gpu) Record(f func() error) (device.Recording, error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if d.recordingID != 0 {
		return nil, errRecording
	}
	if rc := C.ens_gpu_begin(d.c); rc != 0 {
		return nil, d.fail(rc, "cuStreamBeginCapture")
	}
	r := &recording{d: d}
	d.recorded++
	d.recordingID = d.recorded
	defer func() {
		if d.recordingID != 0 { // the panic of f is the cause
			_ = d.endRecord(r, false)
		}
	}()
	if err := f(); err != nil {
		// Work that is refused makes the end of the recording fail too, with a less specific error.
		if broken := d.endRecord(r, false); errors.Is(broken, device.ErrLost) && !errors.Is(err, device.ErrLost) {
			return nil, errors.Join(err, broken)
		}
		return nil, err
	}
	if n := len(d.unjoined); n > 0 {
		return nil, errors.Join(fmt.Errorf("GPU %d: recording with %d copies that are not joined", d.index, n), d.endRecord(r, false))
	}
	if err := d.endRecord(r, true); err != nil {
		return nil, err
	}
	d.recordings[r] = true
	return r, nil
}

// endRecord ends the capture and, if keep is set, instantiates the graph. Without keep
// the captured graph is discarded, after a failure.
func (d *gpu) endRecord(r *recording, keep bool) error {
	for _, t := range slices.Clone(d.unjoined) { // all that was forked must be joined
		C.ens_gpu_join(d.c, t.done)
		d.release(t)
	}
	d.recordingID = 0
	var k C.int
	if keep {
		k = 1
	}
	var what *C.char
	if rc := C.ens_gpu_end(d.c, k, &r.exec, &what); rc != 0 {
		return d.fail(rc, C.GoString(what))
	}
	return nil
}

// recording is an instantiated CUDA graph.
type recording struct {
	d    *gpu
	exec C.CUgraphExec // nil after Close
}

// Run enqueues the graph.
//
// Errors: a closed recording or device; those of earlier work.
func (r *recording) Run() error {
	if err := r.d.ready(); err != nil {
		return err
	}
	if r.exec == nil {
		return errRecordingClosed
	}
	r.d.last = "a recording"
	if rc := C.ens_gpu_replay(r.d.c, r.exec); rc != 0 {
		return r.d.fail(rc, "cuGraphLaunch")
	}
	return nil
}

// Close frees the graph. It may be called more than once.
func (r *recording) Close() error {
	if r.exec == nil || r.d.c == nil {
		return nil
	}
	delete(r.d.recordings, r)
	exec := r.exec
	r.exec = nil
	if rc := C.ens_gpu_forget(r.d.c, exec); rc != 0 && r.d.lost == nil {
		return r.d.fail(rc, "cuGraphExecDestroy")
	}
	return nil
}
