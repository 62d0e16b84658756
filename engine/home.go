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
}
