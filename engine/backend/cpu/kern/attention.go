//go:build cgo && linux

package kern

/*
#cgo noescape ens_softmax
#cgo nocallback ens_softmax
#cgo noescape ens_softmax_grad
#cgo nocallback ens_softmax_grad
#cgo noescape ens_set_dot
#cgo nocallback ens_set_dot
#cgo noescape ens_set_mix
#cgo nocallback ens_set_mix
#include "kern.h"
*/
import "C"

// Softmax computes y[o][m][i] = exp(x)/Σ exp(x) over m. y may alias x.
//
// The largest x is subtracted first, which does not change the result and keeps exp
// finite.
//
// Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1; op.Softmax.
func (p *Pool) Softmax(y, x []float32, d Dims) {
	want("y", len(y), d.Len())
	want("x", len(x), d.Len())
	C.ens_softmax(p.ptr(), f32(y), f32(x), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// SoftmaxGrad computes dx = y·(dy − Σ y·dy), the sum over m. dx may alias y and dy.
//
// It is the product of dy with the Jacobian matrix ∂y_i/∂x_j = y_i (δ_ij − y_j).
func (p *Pool) SoftmaxGrad(dx, y, dy []float32, d Dims) {
	want("dx", len(dx), d.Len())
	want("y", len(y), d.Len())
	want("dy", len(dy), d.Len())
	C.ens_softmax_grad(p.ptr(), f32(dx), f32(y), f32(dy), C.long(d.Outer), C.long(d.Mid), C.long(d.Inner))
}

// Attention describes attention within sets: each sample has Queries and Keys members;
// channels are Heads × HeadChannels; grid points are Before × Cells × Within, with one
// weight for each of the Cells.
type Attention struct {
	Samples, Queries, Keys, Heads, HeadChannels int
	Before, Cells, Within                       int
}

// rows returns the number of values of n members of all samples.
func (a Attention) rows(n int) int {
	return a.Samples * n * a.Heads * a.HeadChannels * a.Before * a.Cells * a.Within
}

// weights returns the number of attention weights.
func (a Attention) weights() int { return a.Samples * a.Queries * a.Heads * a.Keys * a.Cells }

// sizes returns the arguments in C.
func (a Attention) sizes() [8]C.long {
	return [8]C.long{C.long(a.Samples), C.long(a.Queries), C.long(a.Keys), C.long(a.Heads), C.long(a.HeadChannels),
		C.long(a.Before), C.long(a.Cells), C.long(a.Within)}
}

// SetDot computes scores w[n][j][h][i][cell], the sum of q[n][j]·k[n][i] over the
// channels of head h and the grid points of the cell. The order of summation does not
// depend on the number of threads.
//
// Source: Finn 2021, arXiv:2106.13924; op.SetDot.
func (p *Pool) SetDot(w, q, k []float32, a Attention) {
	want("w", len(w), a.weights())
	want("q", len(q), a.rows(a.Queries))
	want("k", len(k), a.rows(a.Keys))
	g := a.sizes()
	C.ens_set_dot(p.ptr(), f32(w), f32(q), f32(k), &g[0])
}

// SetMix computes y[n][j] = Σᵢ w[n][j][h][i][cell]·x[n][i], or with transposed y[n][i] =
// Σⱼ w[n][j][h][i][cell]·x[n][j]. With weights from SetDot and Softmax the first is
// attention, the second the gradient of its values.
//
// Source: Finn 2021, arXiv:2106.13924.
func (p *Pool) SetMix(y, w, x []float32, a Attention, transposed bool) {
	in, out, t := a.Keys, a.Queries, C.int(0)
	if transposed {
		in, out, t = out, in, 1
	}
	want("w", len(w), a.weights())
	want("x", len(x), a.rows(in))
	want("y", len(y), a.rows(out))
	g := a.sizes()
	C.ens_set_mix(p.ptr(), f32(y), f32(w), f32(x), &g[0], t)
}
