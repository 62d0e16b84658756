//go:build cgo && linux

package kern

/*
#cgo noescape ens_pointnorm
#cgo nocallback ens_pointnorm
#include "kern.h"
*/
import "C"

// PointNorm describes layer normalisation: the channels of each grid point of x [Rows
// Channels Points] are standardised; Eps is added to the variances.
type PointNorm struct {
	Rows, Channels, Points int
	Eps                    float64
}

// MaxPointChannels is the largest number of channels of PointNorm.
const MaxPointChannels = 8192

// items returns the number of work items for the threads.
func (n PointNorm) items() int { return max(1, min(n.Rows*n.Points/256, 64)) }

// ScratchLen returns the number of values of scratch that PointNormSums needs.
func (n PointNorm) ScratchLen() int { return 2 + 4*n.Channels*n.items() }

// run calls the C function for one of its three results.
func (n PointNorm) run(p *Pool, what int, y, x, dy, gamma, beta, scratch []float32) {
	C.ens_pointnorm(p.ptr(), C.int(what), f32(y), f32(x), f32(dy), f32(gamma), f32(beta), f32(scratch), C.double(n.Eps), C.long(n.Rows), C.long(n.Channels), C.long(n.Points), C.long(n.items()))
}

// check panics unless fields and per-channel values have the expected lengths.
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

// PointNorm computes y = (x − mean)/√(variance + Eps)·gamma + beta, with the moments
// over the channels of each grid point.
//
// Shape: x, y [Rows Channels Points]; gamma, beta [Channels].
// Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
func (p *Pool) PointNorm(y, x, gamma, beta []float32, n PointNorm) {
	n.check([][]float32{gamma, beta}, y, x)
	n.run(p, 0, y, x, nil, gamma, beta, nil)
}

// PointNormGrad computes the gradient of PointNorm with respect to x from dy.
func (p *Pool) PointNormGrad(dx, x, dy, gamma []float32, n PointNorm) {
	n.check([][]float32{gamma}, dx, x, dy)
	n.run(p, 1, dx, x, dy, gamma, nil, nil)
}

// PointNormSums computes Σ dy and then Σ dy·(x − mean)/√(variance + Eps) of every
// channel, the gradients of beta and gamma. The order of summation does not depend on
// the number of threads.
func (p *Pool) PointNormSums(sums, x, dy, scratch []float32, n PointNorm) {
	n.check(nil, x, dy)
	want("sums", len(sums), 2*n.Channels)
	atLeast("scratch", len(scratch), n.ScratchLen())
	n.run(p, 2, sums, x, dy, nil, nil, scratch)
}
