package optim

import "fmt"

// SetMask holds parameters at 0 from now on: those where keep, which lies as the parameters of the
// store do, is false. They, their moments and their averages become 0, and their gradients count
// as 0 in every step, norms and clipping included; so no rule moves them. nil ends that. keep is
// not copied.
func (p *Optimizer) SetMask(keep []bool) error {
	p.mask = nil
	if keep == nil {
		return nil
	}
	if len(keep) != len(p.arena.w) {
		return fmt.Errorf("a mask of %d elements for parameters of %d", len(keep), len(p.arena.w))
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

// applyMask sets what lies as the moments do to 0 where the mask says so.
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

// AddScaledGradient adds factor times the gradient that the next step moves along, before any mask and
// clipping, to x, which lies as the parameters do. Of several ranks each has that of its pieces.
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

// AllGather gives all ranks all of x, which lies as the parameters do and of which each has its own
// pieces. Without ranks that share the optimiser it is complete.
//
// Errors: those of other ranks.
func (p *Optimizer) AllGather(x []float32) error {
	if p.o.Ranks == nil {
		return nil
	}
	return p.o.Ranks.AllGather(x)
}

// Reset forgets moments, steps and the average: the next step is the first one.
func (p *Optimizer) Reset() {
	p.download()
	clear(p.arena.m)
	clear(p.arena.v)
	p.steps, p.pending = 0, false
}
