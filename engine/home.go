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
	dev        backend.Backend
	at         *remote
	of         *Store
	ahead      bool  // parameters and states are newer there
	aheadGrads bool  // so are gradients
	err        error // of the device, for the next run
}

// fetch brings parameters and states to the program's memory if they are newer there.
func (h *home) fetch() {
	if h == nil || !h.ahead {
		return
	}
	h.ahead = false
	h.copy(link{h.of.flatParams, h.at.flat[pass.Param]}, link{h.of.flatStates, h.at.flat[pass.State]})
}

// fetchGrads brings gradients to the program's memory if they are newer there.
func (h *home) fetchGrads() {
	if h == nil || !h.aheadGrads {
		return
	}
	h.aheadGrads = false
	h.copy(link{h.of.grads(), h.at.flat[pass.Grad]})
}

// copy copies, and keeps an error for the next run.
func (h *home) copy(links ...link) {
	h.err = errors.Join(h.err, h.dev.Do(func() error {
		for _, l := range links {
			if err := h.at.Copy(l.to, l.from); err != nil {
				return err
			}
		}
		return h.at.Wait()
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
	if h == nil {
		return
	}
	h.fetch()
	h.fetchGrads()
	h.of.home = nil
}
