package topk

import (
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// accumulateUpdates adds to the residual the share of this rank in the mean over ranks of
// their updates of AdamW. The moments, which are Velocity and Squares, are those of its own
// gradients factor·x, and go on while entries wait.
//
// Adam's second moment of sparse sums of gradients is that of rare, large sums. Its root
// then grows with the root of the time that an entry waits, and the steps shrink. Updates
// have dense moments. Their first moment also averages the noise that would decide which
// gradients are the largest, and a waiting entry keeps the learning rate of its time.
//
// It returns the first index at which residual or moments are not finite, or −1.
//
// Source: Chen et al. 2020, arXiv:2004.14180.
func (r *Reducer) accumulateUpdates(c *comm.Comm, x comm.Parts[float32], factor float32) int {
	step := optim.NewRankUpdates(r.rate/float64(c.Size()), uint64(r.state.Step)+1)
	bad, at := -1, 0
	for _, part := range x {
		end := at + len(part)
		e, s := r.state.Residual[at:end], r.state.Squares[at:end]
		step.Add(e, r.state.Velocity[at:end], s, part, factor)
		for i, a := range e {
			if bad < 0 && (magnitude(a) >= r.o.overflow() || magnitude(s[i]) >= infinite) {
				bad = at + i
			}
		}
		at = end
	}
	return bad
}
