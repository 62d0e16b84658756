// Package dnnl prepares and runs convolutions of oneDNN. The library is opened at run
// time: a program with this package also starts on machines without it.
//
// Open sets OMP_WAIT_POLICY=passive, unless the user has set it, before the library and
// OpenMP are loaded: threads that spin while they wait would take the core from our own
// threads.
//
// The API (2.x or 3.x) is that of the headers at compile time; the library that is
// opened must have the same major version. Tested with 2.6.3 (Debian 12) and, by hand,
// with 3.2 and 3.13 (docs/performance.md): all forms agree with the same reference, and
// 3.x has no Winograd.
//
// A Pass is one direction of one convolution with fixed shapes. NewPass allocates and
// reports errors; Run sets addresses and executes. Tensors are plain contiguous float32
// in the order of PyTorch. The layouts that oneDNN prefers are made in a scratch buffer
// of the caller.
//
// In a program built without cgo, Open returns ErrUnavailable.
//
// Source: oneDNN developer guide, https://uxlfoundation.github.io/oneDNN/.
package dnnl

import "errors"

// ErrUnavailable marks that oneDNN cannot be used by this program or on this machine.
var ErrUnavailable = errors.New("oneDNN is not available")

// Direction is a pass of a convolution.
type Direction int

// The passes: the result, and the gradients with respect to the input and the filter.
const (
	Forward Direction = iota
	BackwardData
	BackwardWeights
)

// Layout is the memory order in which the primitive computes.
type Layout int

// The layouts. Any lets oneDNN choose, usually channels in blocks of 16.
const (
	Any Layout = iota
	ChannelsLast
	Plain
)

// Algorithm is the algorithm of the convolution.
type Algorithm int

// The algorithms. Winograd exists for float32 3×3 filters in 2.x only.
const (
	Direct Algorithm = iota
	Winograd
)

// Shape describes a convolution over two or three spatial axes, with zero padding. All
// slices have the same length.
type Shape struct {
	N, Cin, Cout                 int
	In, Kernel, Stride, Dilation []int
	PadLo, PadHi                 []int
}

// Out returns the size of the result on spatial axis i: ⌊(In + PadLo + PadHi −
// Dilation·(Kernel−1) − 1)/Stride⌋ + 1.
func (s Shape) Out(i int) int {
	return (s.In[i]+s.PadLo[i]+s.PadHi[i]-s.Dilation[i]*(s.Kernel[i]-1)-1)/s.Stride[i] + 1
}

// Options selects the primitive. The zero value is a forward pass in the layout that
// the library prefers, without bias.
type Options struct {
	Direction Direction
	Layout    Layout
	Algorithm Algorithm
	Bias      bool // forward: add it; backward weights: compute its gradient
	Inference bool // forward only: the result is never differentiated
	Threads   int  // 0: the default of OpenMP
}
