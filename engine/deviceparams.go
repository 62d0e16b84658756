package engine

import (
	"errors"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// deviceCopy holds the copy of a store on a device with memory of its own. It
// belongs to the first plan that trains the store. Parameters, states and
// gradients stay on the device from step to step, and are downloaded when the
// program reads them. The methods accept nil and then do nothing.
type deviceCopy struct {
	dev      backend.Backend     // the device
	remote   *remote             // memory on the device
	store    *Store              // the store
	newer    [pass.Grad + 1]bool // kinds that are newer on the device than in the store
	attached []*deviceCopy       // copies of further stores on the same device, released together
	err      error               // error of the device, reported by the next run
}

// download downloads one kind of values if the device has newer ones. An error
// is kept for the next run.
func (h *deviceCopy) download(where pass.MemorySpace) {
	if h == nil || !h.newer[where] {
		return
	}
	h.newer[where] = false
	h.err = errors.Join(h.err, h.dev.Do(func() error {
		return errors.Join(h.remote.Copy(h.store.flat(where), h.remote.flat[where]), h.remote.Wait())
	}))
}

// takeErr returns the pending error of a download and clears it.
func (h *deviceCopy) takeErr() error {
	if h == nil {
		return nil
	}
	err := h.err
	h.err = nil
	return err
}

// release downloads everything before the device is closed.
func (h *deviceCopy) release() {
	// Download everything that is newer on the device, then detach the store,
	// so that later accesses do not reach the closed device.
	for where := range h.newer {
		h.download(pass.MemorySpace(where))
	}
	h.store.device = nil
	for _, other := range h.attached {
		other.release()
		h.err = errors.Join(h.err, other.takeErr())
	}
}

// DeviceParams is the copy of the parameters of a store on a device, for
// optimisers that run there.
type DeviceParams struct{ copy *deviceCopy }

// DeviceParams returns the copy of the parameters on a device. It is nil unless
// a plan trains the store on a device with memory of its own. It is valid until
// that plan is closed.
func (s *Store) DeviceParams() *DeviceParams {
	if s.device == nil {
		return nil
	}
	return &DeviceParams{s.device}
}

// Attach allocates a copy of another store of the same layout on the same
// device. It is valid as long as r is.
//
// Errors: *exit.Error (exit.NoDevice) if the device has too little memory.
func (r *DeviceParams) Attach(s *Store) (*DeviceParams, error) {
	if s.device == nil {
		at := &remote{Remote: r.copy.remote.Remote}
		at.version[pass.Param] = -1
		err := r.copy.dev.Do(func() (err error) {
			at.flat[pass.Param], err = at.Alloc(len(s.flatParams))
			return err
		})
		if err != nil {
			return nil, err
		}
		s.device = &deviceCopy{dev: r.copy.dev, remote: at, store: s}
		r.copy.attached = append(r.copy.attached, s.device)
	}
	return &DeviceParams{s.device}, nil
}

// Device is the backend of the device.
func (r *DeviceParams) Device() backend.Backend { return r.copy.dev }

// Params are the parameters on the device, in the layout of the store. Only
// kernels may access them.
func (r *DeviceParams) Params() []float32 { return r.copy.remote.flat[pass.Param] }

// Grads are the gradients of the last run, on the device. They are nil for
// stores added by DeviceParams.Attach.
func (r *DeviceParams) Grads() []float32 { return r.copy.remote.flat[pass.Grad] }

// Upload uploads the parameters if the program may have changed them. Call it
// within Do, before work that reads or writes them on the device.
func (r *DeviceParams) Upload() error {
	h := r.copy
	if now := h.store.version[pass.Param]; h.remote.version[pass.Param] != now {
		if err := h.remote.Copy(h.remote.flat[pass.Param], h.store.flatParams); err != nil {
			return err
		}
		h.remote.version[pass.Param] = now
	}
	return nil
}

// MarkChanged records that the parameters on the device were changed.
func (r *DeviceParams) MarkChanged() { r.copy.newer[pass.Param] = true }
