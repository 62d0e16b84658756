//go:build cgo && linux

package kern

/*
#cgo noescape ens_conv_naive
#cgo nocallback ens_conv_naive
#cgo noescape ens_conv_naive_data
#cgo nocallback ens_conv_naive_data
#cgo noescape ens_conv_naive_filter
#cgo nocallback ens_conv_naive_filter
#cgo noescape ens_finite
#cgo nocallback ens_finite
#include "kern.h"
*/
import "C"

// NaiveConv is one pass of a convolution by the sum of its definition, in float64, for any
// stride, dilation and padding. NaN and infinities affect the results whose sums contain
// them, and no others. It is much slower than other kernels, which leave operands that are
// not finite to it.
//
// Forward it computes
//
//	y[n,k,o] = bias[k] + Σ_c Σ_r w[k,c,r] · x[n,c,o·stride + r·dilation − pad]
//
// with o and r over depth, height and width; the other passes are its derivatives.
//
// Source: torch.nn.Conv3d, the definition of cross-correlation; op.Conv3D.
type NaiveConv struct {
	pool *Pool
	geom []C.long
	pass ConvPass
	bias bool
	dims Dims // of the result
}

// NewNaiveConv prepares a pass. bias and relu are as for NewConv.
func NewNaiveConv(p *Pool, s ConvSpec, pass ConvPass, bias, relu bool) *NaiveConv {
	c := &NaiveConv{pool: p, pass: pass, bias: bias, dims: Dims{Outer: s.N, Mid: s.Cout, Inner: volume(s.Out)}}
	c.geom = []C.long{C.long(s.N), C.long(s.Cin), C.long(s.Cout)}
	lo, mode := [3]int{}, [3]int{}
	for i, d := range s.Pad {
		lo[i], mode[i] = d.Lo, int(d.Mode)
	}
	for _, axes := range [][3]int{s.In, s.Out, s.Kernel, s.Stride, s.Dilation, lo, mode} {
		for _, v := range axes {
			c.geom = append(c.geom, C.long(v))
		}
	}
	c.geom = append(c.geom, b2l(relu && pass == ConvForward))
	return c
}

// Run executes the pass on the operands of Conv.Run.
func (c *NaiveConv) Run(src, filter, bias, dst []float32) {
	switch c.pass {
	case ConvForward:
		if !c.bias {
			bias = nil
		}
		C.ens_conv_naive(c.pool.ptr(), f32(dst), f32(src), f32(filter), f32(bias), &c.geom[0])
	case ConvBackwardData:
		C.ens_conv_naive_data(c.pool.ptr(), f32(src), f32(dst), f32(filter), &c.geom[0])
	default:
		C.ens_conv_naive_filter(c.pool.ptr(), f32(filter), f32(src), f32(dst), &c.geom[0])
		if c.bias {
			c.pool.SumMid(bias, dst, nil, c.dims)
		}
	}
}

// Finite reports whether all values of y are finite. With relu it also replaces y by its
// ReLU, which keeps NaN, in the same sweep.
func (p *Pool) Finite(y []float32, relu bool) bool {
	if len(y) == 0 {
		return true
	}
	var infinite C.int
	C.ens_finite(p.ptr(), f32(y), C.int(flag(relu)), &infinite, C.long(len(y)))
	return infinite == 0
}
