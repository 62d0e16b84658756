package engine

import (
	"errors"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// deviceCopy is the memory of the first plan that trains a store on a device with memory of its
// own: there parameters, states and gradients lie from step to step, and the program has
// them when it asks. The methods of a nil home do nothing.
type deviceCopy struct {
	dev      backend.Backend
	remote   *remote
	store    *Store
	newer    [pass.Grad + 1]bool // what is newer there
	attached []*deviceCopy       // stores that settled on the same device, and leave with it
	err      error               // of the device, for the next run
}

// download brings one kind of values to the program's memory if they are newer there. An
// error is kept for the next run.
func (h *deviceCopy) download(where pass.MemorySpace) {
	if h == nil || !h.newer[where] {
		return
	}
	h.newer[where] = false
	h.err = errors.Join(h.err, h.dev.Do(func() error {
		return errors.Join(h.remote.Copy(h.store.flat(where), h.remote.flat[where]), h.remote.Wait())
	}))
}

// takeErr is the error of a copy that nobody has been told of.
func (h *deviceCopy) takeErr() error {
	if h == nil {
		return nil
	}
	err := h.err
	h.err = nil
	return err
}

// release brings all to the program's memory before the device is closed.
func (h *deviceCopy) release() {
	for where := range h.newer {
		h.download(pass.MemorySpace(where))
	}
	h.store.device = nil
	for _, other := range h.attached {
		other.release()
		h.err = errors.Join(h.err, other.takeErr())
	}
}

// DeviceParams is where the parameters of a store lie on a device, for what changes them there.
type DeviceParams struct{ copy *deviceCopy }

// DeviceParams is nil where no plan trains the store on a device with memory of its own. It
// ends when that plan is closed.
func (s *Store) DeviceParams() *DeviceParams {
	if s.device == nil {
		return nil
	}
	return &DeviceParams{s.device}
}

// Attach gives another store, of the same layout, a place for its parameters on the device
// of this one, until that ends.
//
// Errors: too little memory.
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

// Params and Grads lie on the device, in the layout of the store. A store that settled has
// no gradients there.
func (r *DeviceParams) Params() []float32 { return r.copy.remote.flat[pass.Param] }

// Grads are those of the last run of the plan.
func (r *DeviceParams) Grads() []float32 { return r.copy.remote.flat[pass.Grad] }

// Upload brings parameters to the device that the program may have changed. It is called
// within Do, before work that reads or moves them there.
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

// MarkChanged says that the parameters on the device were changed.
func (r *DeviceParams) MarkChanged() { r.copy.newer[pass.Param] = true }
