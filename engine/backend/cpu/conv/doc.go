// Package conv prepares 3-D convolutions on the CPU: for fixed shapes it
// chooses, by a short timing, which of several exact forms runs each pass.
//
//	own      our kernel over plain tensors, no change of layout
//	d3       oneDNN, 3-D
//	f2       oneDNN, depth folded into channels: a 2-D convolution, exact
//	…cl      the same in channels-last layout
//	…wino    the same by Winograd's products (3×3, result differs by about 3e-6)
//
// Tensors are plain contiguous float32: x [N C D H W], filter [O I kD kH kW] as
// in PyTorch. A periodic axis (longitude) is part of every form. The choice is
// a string that a plan stores and that Options.Choice repeats.
//
// Everything that can fail or allocate happens in Prepare. Without cgo Prepare
// returns kern.ErrUnavailable.
package conv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// ErrShape marks a convolution that cannot be.
var ErrShape = errors.New("convolution: impossible shape")

// Spec describes a convolution (cross-correlation, as in PyTorch).
type Spec struct {
	N, Cin, Cout     int
	In               [3]int // D, H, W of the source
	Kernel           [3]int
	Stride, Dilation [3]int // 0 means 1
	Pad              [3]kern.Padding
}

// normal is s with strides and dilations filled in.
func (s Spec) normal() Spec {
	for i := range 3 {
		s.Stride[i] = max(s.Stride[i], 1)
		s.Dilation[i] = max(s.Dilation[i], 1)
	}
	return s
}

// Check is nil or wraps ErrShape.
func (s Spec) Check() error {
	n := s.normal()
	if s.N < 1 || s.Cin < 1 || s.Cout < 1 {
		return fmt.Errorf("%w: N %d, channels %d to %d", ErrShape, s.N, s.Cin, s.Cout)
	}
	for i, axis := range [...]string{"depth", "height", "width"} {
		p := s.Pad[i]
		switch {
		case s.In[i] < 1 || s.Kernel[i] < 1 || s.Stride[i] < 0 || s.Dilation[i] < 0 || p.Lo < 0 || p.Hi < 0:
			return fmt.Errorf("%w: %s: size %d, kernel %d, stride %d, dilation %d, padding %d and %d",
				ErrShape, axis, s.In[i], s.Kernel[i], s.Stride[i], s.Dilation[i], p.Lo, p.Hi)
		case n.reach(i) > s.In[i]+p.Lo+p.Hi:
			return fmt.Errorf("%w: %s: kernel reaches over %d cells, source and padding have %d",
				ErrShape, axis, n.reach(i), s.In[i]+p.Lo+p.Hi)
		}
	}
	return nil
}

// reach is the number of cells a kernel spans on axis i.
func (s Spec) reach(i int) int { return s.Dilation[i]*(s.Kernel[i]-1) + 1 }

// Out is D, H, W of the result: ⌊(In + Lo + Hi − Dilation·(Kernel−1) − 1)/Stride⌋ + 1.
func (s Spec) Out() (out [3]int) {
	s = s.normal()
	for i := range 3 {
		out[i] = (s.In[i]+s.Pad[i].Lo+s.Pad[i].Hi-s.reach(i))/s.Stride[i] + 1
	}
	return out
}

// SrcLen is the number of values of the source.
func (s Spec) SrcLen() int { return s.N * s.Cin * s.In[0] * s.In[1] * s.In[2] }

// FilterLen is the number of values of the filter.
func (s Spec) FilterLen() int { return s.Cout * s.Cin * s.Kernel[0] * s.Kernel[1] * s.Kernel[2] }

// DstLen is the number of values of the result.
func (s Spec) DstLen() int {
	o := s.Out()
	return s.N * s.Cout * o[0] * o[1] * o[2]
}

// FLOPs is the useful work of one pass: two operations for every product of a
// filter value and a source cell, padding in depth left out, padding of the
// other axes counted as the customary figures do.
func (s Spec) FLOPs() float64 {
	s = s.normal()
	out, taps := s.Out(), 0
	for o := range out[0] {
		for k := range s.Kernel[0] {
			i := o*s.Stride[0] - s.Pad[0].Lo + k*s.Dilation[0]
			if s.Pad[0].Mode == kern.Periodic || i >= 0 && i < s.In[0] {
				taps++
			}
		}
	}
	return 2 * float64(s.N) * float64(s.Cin) * float64(s.Cout) * float64(taps) *
		float64(s.Kernel[1]*s.Kernel[2]) * float64(out[1]*out[2])
}

// Pass is a direction of the convolution.
type Pass int

// The passes.
const (
	Forward Pass = iota
	BackwardData
	BackwardWeights
)

// String is the name in a choice.
func (p Pass) String() string {
	return [...]string{"forward", "backward_data", "backward_weights"}[p]
}

// Options choose what is prepared; the zero value prepares the forward pass
// without bias and without ReLU, on one thread, in the fastest form.
type Options struct {
	Pool *kern.Pool // threads of our kernels; oneDNN takes as many

	Bias      bool // forward adds it, backward weights computes its gradient
	ReLU      bool // forward applies it after the bias
	Inference bool // the result is never differentiated
	Backward  bool // prepare the gradient of the filter (and bias) too
	// NoInputGradient leaves out backward data: the source is an input of the network.
	NoInputGradient bool

	// Choice repeats an earlier Choice: "forward=own backward_data=f2 …".
	// A pass that is not named is chosen by timing.
	Choice string
	// Winograd admits forms whose result differs from the plain sum by a few 1e-6.
	Winograd bool
}

// parseChoice reads a choice.
func parseChoice(s string) (map[string]string, error) {
	m := map[string]string{}
	for _, f := range strings.Fields(s) {
		pass, form, ok := strings.Cut(f, "=")
		if !ok || (pass != "forward" && pass != "backward_data" && pass != "backward_weights") {
			return nil, fmt.Errorf("convolution: choice %q: %q is not pass=form", s, f)
		}
		m[pass] = form
	}
	return m, nil
}
