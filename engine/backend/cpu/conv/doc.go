// Package conv prepares 3-D convolutions of plain tensors on the CPU. For fixed shapes
// it chooses the implementation ("form") of each pass by a short benchmark:
//
//	own      kernel of package kern, without a change of layout
//	d3       oneDNN, 3-D
//	f2       oneDNN, 2-D, with the depth axis folded into the channels (exact)
//	…cl      the same in channels-last layout
//	…wino    the same by Winograd's minimal filtering (3×3; relative error about 3e-6)
//
//	y[n,k,o] = Σ_c Σ_t w[k,c,t] · x[n,c, o·stride + t·dilation − pad]  (+ b[k], ReLU)
//
// Shape: x [N C D H W], filter [K C kD kH kW] as in PyTorch, contiguous float32.
//
// Every form supports a periodic axis (longitude). The choice is a string that a plan
// stores and that Options.Choice repeats.
//
// Memory: everything is allocated in Prepare; passes use a scratch buffer of the
// caller.
// Errors: only in Prepare, but for failures of oneDNN. Without cgo Prepare returns
// kern.ErrUnavailable.
// Source: Lavin and Gray 2016, arXiv:1509.09308, for Winograd's minimal filtering.
package conv

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
)

// ErrShape marks a convolution whose shape is invalid.
var ErrShape = errors.New("convolution: invalid shape")

// Spec describes a convolution (cross-correlation, as in PyTorch).
type Spec struct {
	N, Cin, Cout     int             // samples, input channels, output channels
	In               [3]int          // D, H, W of the input
	Kernel           [3]int          // size of the filter
	Stride, Dilation [3]int          // 0 means 1
	Pad              [3]kern.Padding // zero or periodic padding of each axis
}

// normal returns s with zero strides and dilations replaced by 1.
func (s Spec) normal() Spec {
	for i := range 3 {
		s.Stride[i] = max(s.Stride[i], 1)
		s.Dilation[i] = max(s.Dilation[i], 1)
	}
	return s
}

// Check reports whether a convolution of this shape exists.
//
// Errors: ErrShape, wrapped with the axis and the sizes.
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
			return fmt.Errorf("%w: %s: the filter spans %d cells, input and padding have %d",
				ErrShape, axis, n.reach(i), s.In[i]+p.Lo+p.Hi)
		}
	}
	return nil
}

// reach returns the number of cells that the filter spans on axis i.
func (s Spec) reach(i int) int { return s.Dilation[i]*(s.Kernel[i]-1) + 1 }

// Out returns D, H, W of the result: ⌊(In + Lo + Hi − Dilation·(Kernel−1) − 1)/Stride⌋
// + 1.
func (s Spec) Out() (out [3]int) {
	s = s.normal()
	for i := range 3 {
		out[i] = (s.In[i]+s.Pad[i].Lo+s.Pad[i].Hi-s.reach(i))/s.Stride[i] + 1
	}
	return out
}

// SrcLen returns the number of values of the input.
func (s Spec) SrcLen() int { return s.N * s.Cin * s.In[0] * s.In[1] * s.In[2] }

// FilterLen returns the number of values of the filter.
func (s Spec) FilterLen() int { return s.Cout * s.Cin * s.Kernel[0] * s.Kernel[1] * s.Kernel[2] }

// DstLen returns the number of values of the result.
func (s Spec) DstLen() int {
	o := s.Out()
	return s.N * s.Cout * o[0] * o[1] * o[2]
}

// FLOPs returns the number of operations of one pass: two for every product of a filter
// value and an input cell. Zero padding in depth does not count; zero padding of the
// other axes counts, as is customary.
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

// Pass is a pass of a convolution.
type Pass int

// The passes: the result, and the gradients with respect to the input and the filter.
const (
	Forward Pass = iota
	BackwardData
	BackwardWeights
)

// String returns the name of the pass in a choice.
func (p Pass) String() string {
	return [...]string{"forward", "backward_data", "backward_weights"}[p]
}

// Options selects what is prepared. The zero value prepares the forward pass without
// bias and without ReLU, on one thread, in the fastest form.
type Options struct {
	Pool *kern.Pool // threads of our kernels; oneDNN uses as many

	Bias      bool // forward adds it, backward weights computes its gradient
	ReLU      bool // forward applies it after the bias
	Inference bool // the result is never differentiated
	Backward  bool // prepare the gradient of the filter (and of the bias), too
	// NoInputGradient leaves out backward data, for an input of the network.
	NoInputGradient bool

	// Choice repeats an earlier Conv.Choice: "forward=own backward_data=f2 …". Passes that
	// are not named are benchmarked.
	Choice string
	// Winograd permits forms whose result differs from a direct sum by a relative error of
	// a few 1e-6.
	Winograd bool
}

// parseChoice parses a choice into a form for each pass.
func parseChoice(s string) (map[string]string, error) {
	m := map[string]string{}
	for _, f := range strings.Fields(s) {
		pass, form, ok := strings.Cut(f, "=")
		if !ok || (pass != "forward" && pass != "backward_data" && pass != "backward_weights") {
			return nil, fmt.Errorf("convolution: choice %q: got %q, want pass=form", s, f)
		}
		m[pass] = form
	}
	return m, nil
}
