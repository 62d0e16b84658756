// Package kern holds the engine's own CPU kernels, in C: over plain contiguous
// float32 tensors in the order of PyTorch, and over blocked ones (Blocked) in
// float32 or bfloat16, on which the convolutions of networks run (Wino, Point,
// Thin).
//
// Every kernel is compiled for AVX-512, AVX2 and the plain instruction set;
// the best one is chosen when the program starts. Work is cut into pieces that
// the threads of a Pool take as they come; no result depends on who takes
// what, so the bits are the same for every number of threads. The pool's
// threads sleep when there is no work.
//
// A call never allocates in Go. Slices are lent for the call. A slice of the
// wrong length is a broken invariant of the caller and panics: shapes are
// checked when a plan is compiled. Where the text says "may alias", the result
// may be the same slice as an argument; parts that merely overlap may not.
//
// The convolution of plain tensors (Conv) needs no change of layout; package conv
// chooses between it and oneDNN.
//
// Without cgo NewPool returns ErrUnavailable and there is nothing else: callers
// select their file by the build tag cgo.
package kern

import "errors"

// ErrUnavailable marks a program built without cgo.
var ErrUnavailable = errors.New("kernels are not available: this program was built without cgo")

// Unary names an elementwise function of one tensor.
type Unary int

// The functions; their numbers are those of kern.h.
const (
	ReLU Unary = iota
	Exp
	Log
	Sqrt
	Square
	Abs
	Neg
	Reciprocal
	Softplus
	Sigmoid
	Tanh
	Erf
)

// Binary names an elementwise function of two tensors.
type Binary int

// The functions; RSub is b − a and RDiv is b / a.
const (
	Add Binary = iota
	Sub
	Mul
	Div
	Min
	Max
	RSub
	RDiv
)

// PadMode says what lies beyond the edge of an axis.
type PadMode int

// The modes.
const (
	Zeros PadMode = iota
	Periodic
)

// Padding is the number of cells added before and after one axis.
type Padding struct {
	Lo, Hi int
	Mode   PadMode
}
