//go:build cgo && linux

package kern

/*
#cgo noescape ens_conv
#cgo nocallback ens_conv
#cgo noescape ens_conv_filter
#cgo nocallback ens_conv_filter
#include "kern.h"
*/
import "C"

import "errors"

// ErrUnsupported marks a convolution that the kernel does not support.
var ErrUnsupported = errors.New("not supported by this kernel")

// Conv is one pass of a convolution on plain tensors, with stride 1 in height and
// width. It holds no memory of C.
//
// Source: torch.nn.Conv3d; op.Conv3D.
type Conv struct {
	pool       *Pool
	geom       []C.long
	taps       []C.int // depthTaps
	src        int     // values of the tensor that is read through a padded copy
	filter     int     // values of the filter
	dst        int     // values of the other tensor
	bias       int     // values of the bias, or of its gradient
	scratch    int
	pass       ConvPass
	addBias    bool
	resultDims Dims
	naive      *NaiveConv // for operands that are not finite
	infinite   C.int      // set by the kernels
}

// ConvPass is a pass of a convolution.
type ConvPass int

// The passes: the result, and the gradients with respect to the input and the filter.
const (
	ConvForward ConvPass = iota
	ConvBackwardData
	ConvBackwardWeights
)

// ConvSpec describes a convolution. Strides and dilations are at least 1.
type ConvSpec struct {
	N, Cin, Cout             int
	In, Out                  [3]int
	Kernel, Stride, Dilation [3]int
	Pad                      [3]Padding
}

// NewConv prepares a pass. With bias the forward pass adds it and the backward weights
// pass computes its gradient. relu applies to the forward pass.
//
// Errors: ErrUnsupported for strides in height or width; for the gradient of a filter
// of more than 300 taps; in backward data for padding wider than the filter or periodic
// padding that changes the size of the axis.
func NewConv(pool *Pool, s ConvSpec, pass ConvPass, bias, relu bool) (*Conv, error) {
	c := &Conv{pool: pool, pass: pass, addBias: bias && pass != ConvBackwardData, naive: NewNaiveConv(pool, s, pass, bias, relu)}
	taps := s.Kernel[0] * ((s.Kernel[1]*s.Kernel[2] + 2) / 3)
	if s.Stride[1] != 1 || s.Stride[2] != 1 || pass == ConvBackwardWeights && taps > 100 {
		return nil, ErrUnsupported
	}
	in, out, cin, cout := s.In, s.Out, s.Cin, s.Cout
	pad, flip := s.Pad, C.long(0)
	if pass == ConvBackwardData {
		// The gradient of the source is the convolution of the result's gradient
		// with the reversed filter and the complementary padding.
		in, out, cin, cout, flip = s.Out, s.In, s.Cout, s.Cin, 1
		for i := 1; i < 3; i++ {
			reach := s.Dilation[i] * (s.Kernel[i] - 1)
			pad[i].Lo, pad[i].Hi = reach-s.Pad[i].Lo, reach-s.Pad[i].Hi
			if pad[i].Lo < 0 || pad[i].Hi < 0 || pad[i].Mode == Periodic && s.Out[i] != s.In[i] {
				return nil, ErrUnsupported
			}
		}
	}
	hp, wp := in[1]+pad[1].Lo+pad[1].Hi, in[2]+pad[2].Lo+pad[2].Hi
	const slack = 48 // a vector tile may read beyond a plane
	plane := (hp*wp + slack + 15) / 16 * 16
	c.geom = []C.long{
		C.long(s.N), C.long(cin), C.long(cout), C.long(in[0]), C.long(out[0]), C.long(s.Kernel[0]),
		C.long(s.Kernel[1]), C.long(s.Kernel[2]), C.long(s.Dilation[1]), C.long(s.Dilation[2]),
		C.long(in[1]), C.long(in[2]), C.long(out[1]), C.long(out[2]),
		C.long(pad[1].Lo), C.long(pad[2].Lo), C.long(hp), C.long(wp), C.long(pad[1].Mode), C.long(pad[2].Mode),
		C.long(plane), flip, b2l(bias && pass == ConvForward), b2l(relu && pass == ConvForward),
	}
	c.taps = depthTaps(s, pass)
	c.src = s.N * cin * volume(in)
	c.dst = s.N * cout * volume(out)
	c.filter = s.Cout * s.Cin * volume(s.Kernel)
	c.scratch = s.N*cin*in[0]*plane + slack
	if pass == ConvBackwardWeights {
		c.scratch += s.N*cout*out[0]*plane + slack
	} else {
		c.scratch += (cout + 7) / 8 * 8 * cin * volume(s.Kernel)
	}
	if c.addBias {
		c.bias = s.Cout
	}
	c.resultDims = Dims{Outer: s.N, Mid: s.Cout, Inner: volume(s.Out)}
	return c, nil
}

// depthTaps returns, for each output level and each level of the packed filter, the
// input level that is read, or −1 for padding.
func depthTaps(s ConvSpec, pass ConvPass) (taps []C.int) {
	planes := s.Out[0]
	if pass == ConvBackwardData {
		planes = s.In[0]
	}
	for p := range planes {
		for k := range s.Kernel[0] {
			at := p*s.Stride[0] - s.Pad[0].Lo + k*s.Dilation[0]
			n := s.In[0]
			if pass == ConvBackwardData { // p = at·stride − lo + tap·dilation, filter reversed
				n = s.Out[0]
				at = p + s.Pad[0].Lo - (s.Kernel[0]-1-k)*s.Dilation[0]
				if at%s.Stride[0] != 0 {
					at = -1
				} else {
					at /= s.Stride[0]
				}
			} else if s.Pad[0].Mode == Periodic {
				at = (at%n + n) % n
			}
			if at < 0 || at >= n {
				at = -1
			}
			taps = append(taps, C.int(at))
		}
	}
	return taps
}

// b2l returns a bool as a long of C.
func b2l(b bool) C.long {
	if b {
		return 1
	}
	return 0
}

// ScratchLen returns the number of float32 values of scratch that Run needs.
func (c *Conv) ScratchLen() int { return c.scratch }

// Run executes the pass:
//
//	forward           reads src, filter, bias; writes dst
//	backward data     reads filter, dst (its gradient); writes src (its gradient)
//	backward weights  reads src, dst (its gradient); writes filter, bias (their gradients)
//
// Errors: always nil; package conv needs the result.
func (c *Conv) Run(src, filter, bias, dst, scratch []float32) error {
	given, result := src, dst
	if c.pass == ConvBackwardData {
		src, dst = dst, src
	}
	want("source", len(src), c.src)
	want("filter", len(filter), c.filter)
	want("result", len(dst), c.dst)
	if c.addBias {
		want("bias", len(bias), c.bias)
	}
	if len(scratch) < c.scratch {
		panic("kern: convolution with too little scratch")
	}
	c.infinite = 0
	if c.pass != ConvBackwardWeights {
		C.ens_conv(c.pool.ptr(), f32(dst), f32(src), f32(filter), f32(bias), f32(scratch), &c.geom[0], &c.taps[0], &c.infinite)
	} else {
		C.ens_conv_filter(c.pool.ptr(), f32(filter), f32(src), f32(dst), f32(scratch), &c.geom[0], &c.taps[0], &c.infinite)
	}
	if c.infinite != 0 {
		c.naive.Run(given, filter, bias, result)
		return nil
	}
	if c.pass == ConvBackwardWeights && c.addBias {
		c.pool.SumMid(bias, dst, nil, c.resultDims)
	}
	return nil
}

// Close does nothing: a Conv holds no memory of C.
func (c *Conv) Close() error { return nil }
