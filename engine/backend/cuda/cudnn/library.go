//go:build cgo && linux

package cudnn

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape ens_cudnn_execute
#cgo nocallback ens_cudnn_execute
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/libraries"
	"github.com/ensemble-weather/ensemble/internal/dl"
)

// Library is the opened cuDNN.
type Library struct {
	t       *C.ens_cudnn // never freed, because the library is never closed
	version string
	path    string
}

// Open opens cuDNN. find searches for it; nil means libraries.Find.
//
// Errors: *exit.Error (exit.NoDevice) that wraps ErrUnavailable if the library or one
// of its functions is missing, or if its version is not 9.
func Open(find func(libraries.Library) (*dl.Library, error)) (*Library, error) {
	l := &Library{t: (*C.ens_cudnn)(C.calloc(1, C.sizeof_ens_cudnn))}
	var err error
	if l.path, err = use.Open(find, l.bind); err != nil {
		C.free(unsafe.Pointer(l.t))
		return nil, err
	}
	return l, nil
}

func (l *Library) bind(lib *dl.Library) error {
	if err := lib.Bind(C.GoString(C.ens_cudnn_names), unsafe.Slice((*unsafe.Pointer)(unsafe.Pointer(l.t)), C.sizeof_ens_cudnn/C.sizeof_uintptr_t)); err != nil {
		return err
	}
	v := int(C.ens_cudnn_version(l.t))
	if l.version = fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100); v/10000 != 9 {
		return fmt.Errorf("got version %s, want 9.x", l.version)
	}
	return nil
}

// use describes the library in errors.
var use = libraries.Use{Library: libraries.CuDNN, Purpose: "convolutions on the GPU", Install: "cuDNN 9", Marker: ErrUnavailable}

// Version returns the version of the library, such as "9.28.0".
func (l *Library) Version() string { return l.version }

// Path returns the file that was opened.
func (l *Library) Path() string { return l.path }

// call runs f, a call of cuDNN, and returns its error with the message that cuDNN keeps
// per OS thread.
func (l *Library) call(call, what string, f func() C.int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	status := f()
	if status == 0 {
		return nil
	}
	var text [2048]C.char
	C.ens_cudnn_last_error(l.t, &text[0], C.size_t(len(text)))
	return &CallError{Call: call, What: what, Status: int(status), Name: C.GoString(C.ens_cudnn_error(l.t, status)),
		Detail: strings.TrimSpace(C.GoString(&text[0]))}
}

// Handle is cuDNN on one device. It must be used by one goroutine at a time, on the
// thread where the context of the device is current.
type Handle struct {
	l      *Library
	handle unsafe.Pointer // nil for a description of a device
	// described is the description of a device that this machine need not have; else zero.
	described descriptor
	made      *descriptors // of described
}

// New prepares cuDNN for a device, whose context must be current.
//
// All its work goes to the main stream of d, after the work enqueued there.
//
// Errors: *exit.Error (exit.NoDevice) that wraps ErrUnavailable and a *CallError.
func (l *Library) New(d device.NativeHandles) (*Handle, error) {
	h := &Handle{l: l}
	var p unsafe.Pointer
	if err := l.call("cudnnCreate", "the handle", func() C.int { return C.ens_cudnn_create(l.t, &p) }); err != nil {
		return nil, use.Unavailable(l.path, err)
	}
	h.handle = p
	if err := l.call("cudnnSetStream", "the handle", func() C.int { return C.ens_cudnn_stream(l.t, p, d.Stream()) }); err != nil {
		_ = h.Close() // the first error is more specific
		return nil, use.Unavailable(l.path, err)
	}
	return h, nil
}

// NewFromDescription prepares cuDNN for a device that this machine need not have. The
// description is the attribute CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION of such a
// device. Plans can be made but not run.
//
// Errors: *CallError if cuDNN rejects the description.
func (l *Library) NewFromDescription(description string) (*Handle, error) {
	h := &Handle{l: l, made: &descriptors{l: l}}
	var err error
	h.described, err = h.made.make("the device", C.CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
		values(C.CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, C.CUDNN_TYPE_CHAR, []byte(description)...))
	if err != nil {
		_ = h.made.close() // the first error is more specific
		return nil, err
	}
	return h, nil
}

// Close waits for the device and frees the handle; plans are closed before. It may be
// called more than once.
func (h *Handle) Close() error {
	if h.made != nil {
		made := h.made
		h.made = nil
		return made.close()
	}
	if h.handle == nil {
		return nil
	}
	p := h.handle
	h.handle = nil
	return h.l.call("cudnnDestroy", "the handle", func() C.int { return C.ens_cudnn_destroy(h.l.t, p) })
}
