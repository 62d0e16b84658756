package optim

import "fmt"

// SetMask holds masked parameters at 0: those where keep is false. Their moments and averages
// become 0 as well. Their gradients count as 0 in every later step, in norms and clipping too, so
// that no rule changes them. A nil mask ends this; the parameters stay at 0 until a step changes
// them.
//
// Shape: keep [parameters], in the layout of the store.
// Memory: keep is not copied; the caller must not change it while it is in use.
// Errors: a mask whose length is not that of the parameters.
func (p *Optimizer) SetMask(keep []bool) error {
	p.mask = nil
	if keep == nil {
		return nil
	}
	if len(keep) != len(p.arena.w) {
		return fmt.Errorf("optimiser mask: %d elements, want %d, one per parameter", len(keep), len(p.arena.w))
	}
	p.mask = keep
	if p.device != nil {
		return p.device.setMask(keep)
	}
	p.refreshParams()
	for i, k := range keep {
		if k {
			continue
		}
		p.arena.w[i] = 0
		if p.arena.e != nil {
			p.arena.e[i] = 0
		}
	}
	p.applyMask(p.arena.m)
	p.applyMask(p.arena.v)
	return nil
}

// applyMask sets masked elements of x to 0. x has the layout of the moments.
func (p *Optimizer) applyMask(x []float32) {
	if p.mask == nil || x == nil {
		return
	}
	for _, r := range p.runs {
		keep, x := p.mask[r.lo:r.lo+r.n], x[r.at:r.at+r.n]
		for i, k := range keep {
			if !k {
				x[i] = 0
			}
		}
	}
}

// AddScaledGradient adds factor times the gradient of the next step to x, before masking and
// clipping. If several ranks share the optimiser, each adds the elements that it owns; AllGather
// completes x.
//
// Shape: x [parameters], in the layout of the store.
func (p *Optimizer) AddScaledGradient(x []float32, factor float32) {
	p.download()
	g := p.gradient()
	if p.pending && p.weight == 0 {
		return
	}
	factor *= float32(p.factor())
	for _, r := range p.runs {
		to := x[r.lo : r.lo+r.n]
		for i, v := range g[r.at : r.at+r.n] {
			to[i] += factor * v
		}
	}
}

// SetGradient replaces the gradient of the next step, and the accumulated ones with it. The optimiser is that of one process,
// on the host.
//
// Shape: x [parameters], in the layout of the store; it is copied.
func (p *Optimizer) SetGradient(x []float32) {
	copy(p.store.Grads(), x)
	p.pending = false
}

// AllGather completes x on all ranks. Each rank contributes the elements that it owns.
// Without ranks x is complete already.
//
// Shape: x [parameters], in the layout of the store.
// Errors: communication errors, and errors of other ranks.
func (p *Optimizer) AllGather(x []float32) error {
	if p.o.Ranks == nil {
		return nil
	}
	return p.o.Ranks.AllGather(x)
}

// Reset clears moments, accumulated gradients and the number of steps. The next step is the first
// one, which also restarts the moving average.
func (p *Optimizer) Reset() {
	p.download()
	clear(p.arena.m)
	clear(p.arena.v)
	p.steps, p.pending = 0, false
}
