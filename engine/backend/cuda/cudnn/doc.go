// Package cudnn runs convolutions of cuDNN 9, which is opened at run time.
//
// A convolution is a graph of operations. For a graph cuDNN proposes engines with
// settings ("knobs"), the best guess first. Each makes a Plan with a workspace of its
// own size; the caller measures and chooses. The name of a plan is the same in every
// process.
//
// Results are reproducible: engines that cuDNN marks as nondeterministic are excluded,
// and so are those that accumulate in less than float32.
//
//	lib, err := cudnn.Open(nil)
//	h, err := lib.New(handles)                       // of one device
//	plans, err := h.Plans(convolution, cudnn.Limits{Workspace: 256 << 20})
//	err = plans[0].Run(cudnn.Operands{X: x, W: w, Y: y, Workspace: scratch})
//
// Some engines, mostly of fused operations, compile their kernels with NVRTC when the
// plan is made, which takes a fraction of a second.
//
// Source: NVIDIA, cuDNN Backend API, and the comments of cudnn_graph.h.
package cudnn

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var (
	// ErrUnavailable marks that the library, one of its functions or the device is
	// missing.
	ErrUnavailable = errors.New("cuDNN is not available")
	// ErrUnsupported marks a convolution that no engine of cuDNN supports as requested.
	ErrUnsupported = errors.New("no engine of cuDNN supports this")
)

// CallError is a failed call of cuDNN.
type CallError struct {
	Call   string // such as "cudnnBackendFinalize"
	What   string // such as "tensor x"
	Status int
	Name   string // such as "CUDNN_STATUS_BAD_PARAM"
	Detail string // message of cuDNN; may be empty
}

func (e *CallError) Error() string {
	s := fmt.Sprintf("%s of %s: %s (%d)", e.Call, e.What, e.Name, e.Status)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Pass is a pass of a convolution.
type Pass int

// The passes, with their operands and results.
const (
	Forward    Pass = iota // X, W, Bias → Y
	DataGrad               // W, Y (its gradient) → X (its gradient)
	FilterGrad             // X, Y (its gradient) → W (its gradient)
)

func (p Pass) String() string { return [...]string{"forward", "data gradient", "filter gradient"}[p] }

// Type is the storage type of values. Products are accumulated in float32 in all cases.
type Type int

// The types.
const (
	Float32  Type = iota
	BFloat16      // 8 bits of mantissa
	Float16       // 11 bits of mantissa
)

func (t Type) String() string { return [...]string{"float32", "bfloat16", "float16"}[t] }

// Bytes returns the size of an element.
func (t Type) Bytes() int64 { return [...]int64{4, 2, 2}[t] }

// Convolution is one pass of a cross-correlation over depth, height and width:
//
//	y[n,k,o] = Σ_c Σ_r w[k,c,r] · x[n,c,o·stride + r·dilation − pad]
//
// Shape: x [N D H W In], y [N D' H' W' Out], w [Out d h w In], contiguous, channels
// last. Channels are padded to a multiple of 8.
type Convolution struct {
	Pass     Pass
	N        int
	In, Out  int    // channels of x and of y
	Size     [3]int // of x
	Filter   [3]int
	Stride   [3]int // 0 means 1
	Dilation [3]int // 0 means 1
	Pad      [3]int // zeros on either side
	// ExtraPadEnd is the number of zeros at the end of an axis minus that at its
	// beginning. It is not 0 for a slab, which has neighbours on one side.
	ExtraPadEnd [3]int
	// PlaneRowsX and PlaneRowsY are the rows from one plane of x and of y to the next, of
	// which a slab uses some; 0 means all.
	PlaneRowsX, PlaneRowsY int
	Type                   Type // storage type of x, y and w
	// FilterGradFloat32 stores the gradient of a filter as float32, whatever Type is. For
	// bfloat16, cuDNN 9.28 supports this from compute capability 9.0 on; it does not
	// support bfloat16 below 8.0.
	FilterGradFloat32 bool
	// TF32 permits rounding float32 factors to 11 bits of mantissa. Type must be Float32.
	TF32 bool
	// Bias adds a number to each channel of y, ReLU replaces negative results by 0 after
	// that; both in Forward only. Plan.Fused reports whether a plan includes them.
	Bias, ReLU bool
	// BiasFloat32 stores the bias as float32, whatever Type is. cuDNN has more fused
	// engines for that, some of which need no compiler.
	BiasFloat32 bool
	// Add adds the result of a gradient to the values in memory.
	Add bool
}

// stridesAndDilations returns strides and dilations, with 1 in place of 0.
func (c *Convolution) stridesAndDilations() (stride, dilation [3]int) {
	for a := range 3 {
		stride[a], dilation[a] = max(1, c.Stride[a]), max(1, c.Dilation[a])
	}
	return stride, dilation
}

// Result returns the size of y.
func (c *Convolution) Result() [3]int {
	stride, dilation := c.stridesAndDilations()
	var out [3]int
	for a := range 3 {
		room := c.Size[a] + 2*c.Pad[a] + c.ExtraPadEnd[a] - (c.Filter[a]-1)*dilation[a] - 1
		if room >= 0 {
			out[a] = room/stride[a] + 1
		}
	}
	return out
}

// lanes divides the number of channels, because tensor-core engines of cuDNN need rows
// of 16 bytes.
const lanes = 8

// check reports why a convolution is invalid.
func (c *Convolution) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("cudnn: %v of %v: %s", c.Pass, c.Size, fmt.Sprintf(format, args...))
	}
	if c.Pass < Forward || c.Pass > FilterGrad || c.Type < Float32 || c.Type > Float16 {
		return fmt.Errorf("cudnn: pass %d of type %d: want passes 0 to %d and types 0 to %d", c.Pass, c.Type, FilterGrad, Float16)
	}
	if c.N < 1 || c.In < 1 || c.Out < 1 || c.In%lanes != 0 || c.Out%lanes != 0 {
		return wrong("%d samples of %d channels to %d: want at least one, and multiples of %d channels", c.N, c.In, c.Out, lanes)
	}
	out := c.Result()
	for a := range 3 {
		if c.Size[a] < 1 || c.Filter[a] < 1 || c.Stride[a] < 0 || c.Dilation[a] < 0 || c.Pad[a] < 0 || c.Pad[a]+c.ExtraPadEnd[a] < 0 || out[a] < 1 {
			return wrong("axis %d: filter %d, stride %d, dilation %d and padding %d give no result", a, c.Filter[a], c.Stride[a], c.Dilation[a], c.Pad[a])
		}
	}
	switch {
	case c.PlaneRowsX != 0 && c.PlaneRowsX < c.Size[1] || c.PlaneRowsY != 0 && c.PlaneRowsY < out[1]:
		return wrong("planes of %d and %d rows: PlaneRowsX and PlaneRowsY are %d and %d, want at least as many", c.Size[1], out[1], c.PlaneRowsX, c.PlaneRowsY)
	case (c.Bias || c.ReLU) && c.Pass != Forward:
		return wrong("only the forward pass has a bias or ReLU")
	case c.Add && c.Pass == Forward:
		return wrong("only gradients can be added to the result")
	case c.BiasFloat32 && !c.Bias:
		return wrong("BiasFloat32 but no bias")
	case c.FilterGradFloat32 && c.Pass != FilterGrad:
		return wrong("FilterGradFloat32 is for the gradient of a filter only")
	case c.TF32 && c.Type != Float32:
		return wrong("TF32 needs float32, got %v", c.Type)
	}
	return nil
}

// Limits selects plans.
type Limits struct {
	Workspace int64 // largest workspace in bytes; 0 permits none
	MaxPlans  int   // largest number of plans; 0 means all that cuDNN proposes, some of which it compiles first
}

// Operands are the addresses of the tensors of a convolution on the device, aligned to
// Alignment.
type Operands struct {
	X, W, Y   device.Pointer
	Bias      device.Pointer // for a fused plan of a convolution with bias
	Workspace device.Pointer // nil if the plan needs none
}

// Alignment is the alignment of all operands in bytes.
const Alignment = 16
