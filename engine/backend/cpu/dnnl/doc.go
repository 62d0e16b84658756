// Package dnnl prepares and runs convolutions of oneDNN, which is opened at
// run time: a program with this package starts on machines without it.
//
// Open sets OMP_WAIT_POLICY=passive (unless the user chose otherwise) before
// the library and with it OpenMP are loaded: with spinning waits a thread
// burns the core that its partner needs. The interface spoken (2.x or 3.x) is
// that of the headers at compile time; the library opened must have the same
// major version. Built and tested with 2.6.3 (Debian 12) and, by hand, with 3.2 and
// 3.13 (see docs/performance.md), where all forms agree with the same judge and Winograd
// is refused as it should be.
//
// A Pass is one direction of one convolution over fixed shapes. Everything
// that can fail or allocate happens in NewPass; Run sets addresses and
// executes. Tensors are plain contiguous float32 in the order of PyTorch; the
// layouts that oneDNN prefers live in scratch memory lent by the caller.
//
// A program built without cgo gets ErrUnavailable from Open.
package dnnl

import "errors"

// ErrUnavailable marks that oneDNN cannot be used in this program or on this machine.
var ErrUnavailable = errors.New("oneDNN is not available")

// Direction is the pass of a convolution.
type Direction int

// The passes.
const (
	Forward Direction = iota
	BackwardData
	BackwardWeights
)

// Layout is the order in memory that the primitive is asked to work in.
type Layout int

// The layouts. Any lets oneDNN choose, mostly channels in blocks of 16.
const (
	Any Layout = iota
	ChannelsLast
	Plain
)

// Algorithm is how products are formed.
type Algorithm int

// The algorithms. Winograd exists for float32 3×3 in 2.x only.
const (
	Direct Algorithm = iota
	Winograd
)

// Shape describes a convolution over two or three spatial axes. Padding is
// with zeros. All slices have the same length.
type Shape struct {
	N, Cin, Cout                 int
	In, Kernel, Stride, Dilation []int
	PadLo, PadHi                 []int
}

// Out is the extent of the result on spatial axis i:
// ⌊(In + PadLo + PadHi − Dilation·(Kernel−1) − 1)/Stride⌋ + 1.
func (s Shape) Out(i int) int {
	return (s.In[i]+s.PadLo[i]+s.PadHi[i]-s.Dilation[i]*(s.Kernel[i]-1)-1)/s.Stride[i] + 1
}

// Options choose the primitive; the zero value is a forward pass in the
// library's own layout, without bias.
type Options struct {
	Direction Direction
	Layout    Layout
	Algorithm Algorithm
	Bias      bool // forward: add it; backward weights: compute its gradient
	ReLU      bool // forward only
	Inference bool // forward only: the result is never differentiated
	Threads   int  // 0: as OpenMP decides
}
