package engine

import (
	"errors"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/pass"
)

// home is the memory of the first plan that trains a store on a device with memory of its
// own: there parameters, states and gradients lie from step to step, and the program has
// them when it asks. The methods of a nil home do nothing.
type home struct {
	dev   backend.Backend
	at    *remote
	of    *Store
	ahead [pass.Grad + 1]bool // what is newer there
	with  []*home             // stores that settled on the same device, and leave with it
	err   error               // of the device, for the next run
}

// fetch brings one kind of values to the program's memory if they are newer there. An
// error is kept for the next run.
func (h *home) fetch(where pass.Where) {
	if h == nil || !h.ahead[where] {
		return
	}
	h.ahead[where] = false
	h.err = errors.Join(h.err, h.dev.Do(func() error {
		return errors.Join(h.at.Copy(h.of.flat(where), h.at.flat[where]), h.at.Wait())
	}))
}

// failed is the error of a copy that nobody has been told of.
func (h *home) failed() error {
	if h == nil {
		return nil
	}
	err := h.err
	h.err = nil
	return err
}

// leave brings all to the program's memory before the device is closed.
func (h *home) leave() {
	for where := range h.ahead {
		h.fetch(pass.Where(where))
	}
	h.of.home = nil
	for _, other := range h.with {
		other.leave()
		h.err = errors.Join(h.err, other.failed())
	}
}

// Residence is where the parameters of a store lie on a device, for what changes them there.
type Residence struct{ h *home }

// Residence is nil where no plan trains the store on a device with memory of its own. It
// ends when that plan is closed.
func (s *Store) Residence() *Residence {
	if s.home == nil {
		return nil
	}
	return &Residence{s.home}
}

// Settle gives another store, of the same layout, a place for its parameters on the device
// of this one, until that ends.
//
// Errors: too little memory.
func (r *Residence) Settle(s *Store) (*Residence, error) {
	if s.home == nil {
		at := &remote{Remote: r.h.at.Remote}
		at.version[pass.Param] = -1
		err := r.h.dev.Do(func() (err error) {
			at.flat[pass.Param], err = at.Make(len(s.flatParams))
			return err
		})
		if err != nil {
			return nil, err
		}
		s.home = &home{dev: r.h.dev, at: at, of: s}
		r.h.with = append(r.h.with, s.home)
	}
	return &Residence{s.home}, nil
}

// Device is the backend of the device.
func (r *Residence) Device() backend.Backend { return r.h.dev }

// Params and Grads lie on the device, in the layout of the store. A store that settled has
// no gradients there.
func (r *Residence) Params() []float32 { return r.h.at.flat[pass.Param] }

// Grads are those of the last run of the plan.
func (r *Residence) Grads() []float32 { return r.h.at.flat[pass.Grad] }

// Ready brings parameters to the device that the program may have changed. It is called
// within Do, before work that reads or moves them there.
func (r *Residence) Ready() error {
	h := r.h
	if now := h.of.version[pass.Param]; h.at.version[pass.Param] != now {
		if err := h.at.Copy(h.at.flat[pass.Param], h.of.flatParams); err != nil {
			return err
		}
		h.at.version[pass.Param] = now
	}
	return nil
}

// Moved says that the parameters on the device were changed.
func (r *Residence) Moved() { r.h.ahead[pass.Param] = true }
