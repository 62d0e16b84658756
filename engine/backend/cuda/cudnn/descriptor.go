//go:build cgo && linux

package cudnn

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// descriptor is an object of cuDNN with attributes, which are set before it is
// finalized and read afterwards.
type descriptor struct{ p unsafe.Pointer }

// descriptors are descriptors with a common lifetime.
type descriptors struct {
	l   *Library
	all []descriptor
}

// attribute is a value to be set: n elements of a type.
type attribute struct {
	name, kind C.int
	n          int
	p          unsafe.Pointer
}

// element is a type of attributes; bool is one byte in Go and in C.
type element interface {
	int64 | float32 | bool | byte | C.int | descriptor | unsafe.Pointer
}

// values returns an attribute with its elements. The elements must stay reachable until
// cuDNN has copied them in make.
func values[T element](name, kind C.int, v ...T) attribute {
	return attribute{name, kind, len(v), unsafe.Pointer(unsafe.SliceData(v))}
}

// empty creates a descriptor that is not finalized. It is one of m, so that close
// destroys it. what names it in errors.
func (m *descriptors) empty(what string, kind C.int) (descriptor, error) {
	var d descriptor
	if err := m.l.call("cudnnBackendCreateDescriptor", what, func() C.int { return C.ens_cudnn_make(m.l.t, kind, &d.p) }); err != nil {
		return descriptor{}, err
	}
	m.all = append(m.all, d)
	return d, nil
}

// make creates a descriptor with attributes and finalizes it.
//
// Errors: *CallError; cuDNN checks most attributes when a descriptor is finalized.
func (m *descriptors) make(what string, kind C.int, attributes ...attribute) (descriptor, error) {
	d, err := m.empty(what, kind)
	if err != nil {
		return d, err
	}
	for _, a := range attributes {
		err := m.l.call("cudnnBackendSetAttribute", fmt.Sprintf("%s, attribute %d", what, a.name), func() C.int {
			return C.ens_cudnn_set(m.l.t, d.p, a.name, a.kind, C.int64_t(a.n), a.p)
		})
		if err != nil {
			return d, err
		}
	}
	return d, m.l.call("cudnnBackendFinalize", what, func() C.int { return C.ens_cudnn_finalize(m.l.t, d.p) })
}

// close destroys the descriptors in reverse order. It may be called more than once.
//
// Errors: those of all calls.
func (m *descriptors) close() error {
	var errs error
	for i := len(m.all) - 1; i >= 0; i-- {
		errs = errors.Join(errs, m.l.call("cudnnBackendDestroyDescriptor", "a descriptor", func() C.int { return C.ens_cudnn_drop(m.l.t, m.all[i].p) }))
	}
	m.all = nil
	return errs
}

// get reads at most len(into) elements of an attribute and returns how many it has. If
// they are descriptors, cuDNN fills those in into.
func get[T element](l *Library, d descriptor, what string, name, kind C.int, into []T) (int, error) {
	var n C.int64_t
	err := l.call("cudnnBackendGetAttribute", fmt.Sprintf("%s, attribute %d", what, name), func() C.int {
		return C.ens_cudnn_get(l.t, d.p, name, kind, C.int64_t(len(into)), &n, unsafe.Pointer(unsafe.SliceData(into)))
	})
	return int(n), err
}

// one reads an attribute of one element.
func one[T element](l *Library, d descriptor, what string, name, kind C.int) (T, error) {
	var x [1]T
	n, err := get(l, d, what, name, kind, x[:])
	if err == nil && n != 1 {
		err = fmt.Errorf("cudnnBackendGetAttribute of %s, attribute %d: %d elements, want 1", what, name, n)
	}
	return x[0], err
}

// filled reads an attribute of at most most descriptors of a kind, created by m. cuDNN
// fills descriptors of the caller rather than return its own, so all are created before.
func (m *descriptors) filled(d descriptor, what string, name, kind C.int, most int) ([]descriptor, error) {
	list := make([]descriptor, most)
	for i := range list {
		var err error
		if list[i], err = m.empty(what, kind); err != nil {
			return nil, err
		}
	}
	n, err := get(m.l, d, what, name, C.CUDNN_TYPE_BACKEND_DESCRIPTOR, list)
	return list[:min(n, most)], err
}
