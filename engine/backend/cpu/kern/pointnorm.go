//go:build cgo && linux

package kern

/*
#cgo noescape ens_pointnorm
#cgo nocallback ens_pointnorm
#include "kern.h"
*/
import "C"

// PointNorm are the sizes of standardising the channels of each point: x[rows][channels][points], and what is added to variances.
type PointNorm struct {
	Rows, Channels, Points int
	Eps                    float64
}

// MaxPointChannels is the largest number of channels.
const MaxPointChannels = 8192

// items is how many items points are dealt out to.
func (n PointNorm) items() int { return max(1, min(n.Rows*n.Points/256, 64)) }

// ScratchLen is the number of values that PointNormSums needs as scratch.
func (n PointNorm) ScratchLen() int { return 2 + 4*n.Channels*n.items() }

func (n PointNorm) run(p *Pool, what int, y, x, dy, gamma, beta, scratch []float32) {
	C.ens_pointnorm(p.ptr(), C.int(what), f32(y), f32(x), f32(dy), f32(gamma), f32(beta), f32(scratch), C.double(n.Eps), C.long(n.Rows), C.long(n.Channels), C.long(n.Points), C.long(n.items()))
}

// check panics unless fields and values per channel have the planned lengths.
func (n PointNorm) check(values [][]float32, fields ...[]float32) {
	if n.Channels > MaxPointChannels {
		panic("kern: points of too many channels")
	}
	for _, f := range fields {
		want("a field", len(f), n.Rows*n.Channels*n.Points)
	}
	for _, v := range values {
		want("a value per channel", len(v), n.Channels)
	}
}

// PointNorm computes y = (x − mean)/√(variance + eps)·gamma + beta, moments over the channels of each point.
func (p *Pool) PointNorm(y, x, gamma, beta []float32, n PointNorm) {
	n.check([][]float32{gamma, beta}, y, x)
	n.run(p, 0, y, x, nil, gamma, beta, nil)
}

// PointNormGrad computes the gradient of PointNorm by x from dy.
func (p *Pool) PointNormGrad(dx, x, dy, gamma []float32, n PointNorm) {
	n.check([][]float32{gamma}, dx, x, dy)
	n.run(p, 1, dx, x, dy, gamma, nil, nil)
}

// PointNormSums computes Σ dy, and behind it Σ dy·(x − mean)/√(variance + eps), of every channel: one order of sums, whatever the threads.
func (p *Pool) PointNormSums(sums, x, dy, scratch []float32, n PointNorm) {
	n.check(nil, x, dy)
	want("sums", len(sums), 2*n.Channels)
	atLeast("scratch", len(scratch), n.ScratchLen())
	n.run(p, 2, sums, x, dy, nil, nil, scratch)
}
