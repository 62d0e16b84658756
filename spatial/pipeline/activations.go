package pipeline

import "github.com/ensemble-weather/ensemble/engine"

// none is no piece.
const none = -1

// activations are what the forward passes of a stage have left for its backward passes. Those of one piece lie in the plan itself,
// until the forward pass of another piece or the backward pass of an earlier one needs it: they are copied only then, so pieces
// whose backward pass follows their forward pass, as in the last stage of 1F1B and Chimera, are never copied.
type activations struct {
	piece int                         // in the plan; none
	saved map[int]*engine.Activations // by piece
	free  []*engine.Activations       // buffers for saved
}

// reset drops all pieces.
func (a *activations) reset() {
	a.piece = none
	for _, x := range a.saved {
		a.free = append(a.free, x)
	}
	a.saved = map[int]*engine.Activations{}
}

// load brings the activations of a piece back to the plan, in exchange for those of another piece if there are some.
func (h *held) load(piece int) (err error) {
	x := h.saved[piece]
	delete(h.saved, piece)
	if h.piece == none {
		err = h.plan.Load(x)
		h.free = append(h.free, x)
	} else {
		err = h.plan.Swap(x)
		h.saved[h.piece] = x
	}
	h.piece = piece
	return err
}

// save copies the activations in the plan to a buffer.
func (h *held) save() (err error) {
	if h.piece == none {
		return nil
	}
	var x *engine.Activations
	if n := len(h.free); n > 0 {
		x, h.free = h.free[n-1], h.free[:n-1]
	} else if x, err = h.plan.NewActivations(); err != nil {
		return err
	}
	h.saved[h.piece] = x
	h.piece = none
	return h.plan.Save(x)
}

// heldBytes is the size of the activations that the worker holds after a forward pass, with what it has received of the pieces: in
// is the message of the last one.
func (w *Worker) heldBytes(in []float32) int64 {
	n := 4 * int64(len(in))
	for _, x := range w.step.run.kept {
		n += 4 * int64(len(x))
	}
	if w.recompute {
		return n
	}
	for _, h := range w.held {
		pieces := len(h.saved)
		if h.piece != none {
			pieces++
		}
		n += int64(pieces) * h.plan.SavedBytes()
	}
	return n
}

// PeakActivationBytes is the largest memory of the activations that the worker held at one time of the last step, with what it
// received of these micro-batches.
func (w *Worker) PeakActivationBytes() int64 { return w.step.peak }

// ActivationBytes is what the worker keeps of a piece in the stage of a pipe, from its forward to its backward pass.
func (w *Worker) ActivationBytes(pipe int) int64 {
	h := w.held[pipe]
	n := 4 * int64(size(h.stage.Receives, false))
	if !w.recompute {
		n += h.plan.SavedBytes()
	}
	return n
}
