// Package kern holds the engine's own CPU kernels, in C. Their operands are contiguous
// float32 tensors in the order of PyTorch, or blocked tensors (Blocked) in float32 or
// bfloat16, on which the convolutions of networks run (Wino, Point, Narrow).
//
// Every kernel is compiled for AVX-512, AVX2 and the baseline instruction set. The best
// one is chosen when the program starts. Convolutions of bfloat16 also use AMX.
//
// Threads: a kernel divides its work into items that the threads of a Pool take one at
// a time. Results do not depend on which thread takes which item, so they have the same
// bits for every number of threads. Idle threads sleep.
//
// Memory: calls allocate nothing in Go and keep no slices. "May alias" means that the
// result may be the same slice as an argument; slices that overlap otherwise are not
// permitted.
//
// Errors: a slice of the wrong length panics. Shapes are checked when a plan is
// compiled, so that is a bug.
//
// Conv convolves plain tensors; package conv chooses between it and oneDNN.
//
// Without cgo NewPool returns ErrUnavailable, and the kernels do not exist: callers
// select their file by the build tag cgo.
package kern

import "errors"

// ErrUnavailable is the error of a program built without cgo.
var ErrUnavailable = errors.New("CPU kernels are not available: this program was built without cgo")

// Unary is an elementwise function of one tensor.
type Unary int

// The functions, numbered as in kern.h.
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

// Binary is an elementwise function of two tensors.
type Binary int

// The functions, numbered as in kern.h; RSub is b − a and RDiv is b / a.
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

// PadMode defines the values beyond the ends of an axis.
type PadMode int

// The modes: zeros, or the axis continued periodically (longitude).
const (
	Zeros PadMode = iota
	Periodic
)

// Padding is the number of cells added before and after an axis.
type Padding struct {
	Lo, Hi int
	Mode   PadMode
}
