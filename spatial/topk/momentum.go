package topk

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/spatial/comm"
)

// accumulate adds the gradients x of a step to the residual: v = v + g, where g is x with
// its norm limited. With momentum μ it adds the corrected gradient: u = μu + g, v = v + u.
// So an entry that is sent late has the momentum that it would have if it had been sent
// in each step. When an entry is sent, its u becomes 0 (momentum factor masking,
// Reducer.settle). With updates it adds those of AdamW (accumulateUpdates).
//
// It returns the first index at which the result is not finite, or −1.
//
// Source: Lin et al. 2018, arXiv:1712.01887, section 3 (momentum correction, local
// gradient clipping, momentum factor masking).
func (r *Reducer) accumulate(c *comm.Comm, x comm.Parts[float32]) int {
	factor := r.clipFactor(c, x)
	if r.o.Updates {
		return r.accumulateUpdates(c, x, factor)
	}
	bad, at := -1, 0
	for _, part := range x {
		v := r.state.Residual[at : at+len(part)]
		var largest uint32
		if r.state.Velocity != nil {
			u := r.state.Velocity[at : at+len(part)]
			for i, g := range part {
				u[i] = r.o.Momentum*u[i] + factor*g
				v[i] += u[i]
				largest = max(largest, magnitude(v[i]))
			}
		} else {
			for i, g := range part {
				a := v[i] + factor*g
				v[i] = a
				largest = max(largest, magnitude(a))
			}
		}
		if bad < 0 && largest >= r.o.overflow() {
			bad = at + slices.IndexFunc(v, func(a float32) bool { return magnitude(a) >= r.o.overflow() })
		}
		at += len(part)
	}
	return bad
}

// clipFactor returns the factor that limits the norm of x to Clip/√P. The sum of P
// gradients of independent directions then has a norm of at most Clip.
func (r *Reducer) clipFactor(c *comm.Comm, x comm.Parts[float32]) float32 {
	if r.o.Clip == 0 {
		return 1
	}
	var squares float64
	for _, part := range x {
		for _, g := range part {
			squares += float64(g) * float64(g)
		}
	}
	most := float64(r.o.Clip) / math.Sqrt(float64(c.Size()))
	if norm := math.Sqrt(squares); norm > most {
		return float32(most / norm)
	}
	return 1 // also of NaN, which accumulate reports
}

// warmup has the densities of the first epochs: sparsities of 75, 93.75, 98.4375 and
// 99.6 %.
//
// Source: Lin et al. 2018, arXiv:1712.01887, section 3 (warm-up training).
var warmup = [...]float64{0.25, 0.0625, 0.015625, 0.004}

// WarmupDensity returns the density of an epoch, counted from 0, of a training whose
// first epochs warm up: it falls to the target in four stages of equal length.
//
// Unit: 1.
func WarmupDensity(epoch, epochs int, target float64) float64 {
	if epoch >= epochs {
		return target
	}
	return max(target, warmup[len(warmup)*epoch/epochs])
}
