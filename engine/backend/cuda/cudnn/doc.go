// Package cudnn runs convolutions of cuDNN 9, which it opens at run time.
//
// A convolution is a small graph of operations, for which cuDNN names engines with
// settings ("knobs"), best guess first. Each makes a Plan, which has a name that does not
// change from run to run and wants a workspace of its own size; the caller measures and
// chooses. Plans give the same bits for the same inputs: engines that cuDNN notes as
// nondeterministic are left out, and so are those that add up in less than float32.
//
//	lib, err := cudnn.Open(nil)
//	h, err := lib.New(loaded)                        // of one device
//	plans, err := h.Plans(convolution, cudnn.Limits{Workspace: 256 << 20})
//	err = plans[0].Run(cudnn.Operands{X: x, W: w, Y: y, Workspace: scratch})
//
// Some engines, above all of fused operations, compile their kernels with NVRTC when the plan
// is made, which takes a fraction of a second.
//
// Source: NVIDIA, cuDNN Backend API, and the comments of cudnn_graph.h.
package cudnn

import (
	"errors"
	"fmt"

	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
)

var (
	// ErrUnavailable marks that the library, one of its functions or the device is not there.
	ErrUnavailable = errors.New("cuDNN is not available")
	// ErrUnsupported marks a convolution for which no engine of cuDNN answers the wishes.
	ErrUnsupported = errors.New("no engine of cuDNN does this")
)

// CallError is a call of cuDNN that failed.
type CallError struct {
	Call   string // "cudnnBackendFinalize"
	What   string // "tensor x"
	Status int
	Name   string // "CUDNN_STATUS_BAD_PARAM"
	Detail string // cuDNN's own message, may be empty
}

func (e *CallError) Error() string {
	s := fmt.Sprintf("%s of %s: %s (%d)", e.Call, e.What, e.Name, e.Status)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Pass is the direction of a convolution.
type Pass int

// The directions, with what each reads and writes.
const (
	Forward    Pass = iota // X, W, Bias → Y
	DataGrad               // W, Y (its gradient) → X (its gradient)
	FilterGrad             // X, Y (its gradient) → W (its gradient)
)

func (p Pass) String() string { return [...]string{"forward", "data gradient", "filter gradient"}[p] }

// Type is how values are stored. Products are added up in float32 in all of them.
type Type int

// The types.
const (
	Float32  Type = iota
	BFloat16      // 8 bits of mantissa
	Float16       // 11 bits of mantissa
)

func (t Type) String() string { return [...]string{"float32", "bfloat16", "float16"}[t] }

// Bytes is the size of an element.
func (t Type) Bytes() int64 { return [...]int64{4, 2, 2}[t] }

// Convolution is one direction of a cross-correlation over depth, height and width:
//
//	y[n,k,o] = Σ_c Σ_r w[k,c,r] · x[n,c,o·stride + r·dilation − pad]
//
// Channels are innermost: x lies as [N D H W In], y as [N D' H' W' Out] and w as
// [Out d h w In], without gaps. Channels include the lanes that fill them up to a
// multiple of eight.
type Convolution struct {
	Pass     Pass
	N        int
	In, Out  int    // channels of x and of y
	Size     [3]int // of x
	Filter   [3]int
	Stride   [3]int // 0 is 1
	Dilation [3]int // 0 is 1
	Pad      [3]int // zeros on either side
	// ExtraPadEnd is how many zeros more there are behind the last place of an axis than before its
	// first: those of a slab, whose other neighbours are there, are fewer or more.
	ExtraPadEnd [3]int
	// PlaneRowsX and PlaneRowsY are the rows from one plane of x and of y to the next, of which a slab
	// takes some; 0 is all.
	PlaneRowsX, PlaneRowsY int
	Type                   Type // of x, y and w
	// FilterGradFloat32 stores the gradient of a filter as float32, whatever Type is. Of bfloat16 cuDNN
	// 9.28 does so from compute capability 9.0 on; it has none of bfloat16 before 8.0.
	FilterGradFloat32 bool
	// TF32 lets float32 factors be rounded to 11 bits of mantissa; Type is Float32.
	TF32 bool
	// Bias adds a number to each channel of y, ReLU puts 0 in place of what is negative
	// after it, both in Forward. Plans say whether they do it.
	Bias, ReLU bool
	// BiasFloat32 stores the bias as float32, whatever Type is: of bfloat16 and float16 cuDNN
	// has more fused engines, among them those that need no compiler.
	BiasFloat32 bool
	// Add adds the result of a gradient to what is there.
	Add bool
}

// stridesAndDilations are the strides and dilations, 1 where they are 0.
func (c *Convolution) stridesAndDilations() (stride, dilation [3]int) {
	for a := range 3 {
		stride[a], dilation[a] = max(1, c.Stride[a]), max(1, c.Dilation[a])
	}
	return stride, dilation
}

// Result is the size of y.
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

// lanes divides the number of channels: cuDNN's tensor-core engines want rows of 16 bytes.
const lanes = 8

// check refuses what is no convolution.
func (c *Convolution) check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("cudnn: %v of %v: %s", c.Pass, c.Size, fmt.Sprintf(format, args...))
	}
	if c.Pass < Forward || c.Pass > FilterGrad || c.Type < Float32 || c.Type > Float16 {
		return fmt.Errorf("cudnn: pass %d of type %d: there are passes 0 to %d and types 0 to %d", c.Pass, c.Type, FilterGrad, Float16)
	}
	if c.N < 1 || c.In < 1 || c.Out < 1 || c.In%lanes != 0 || c.Out%lanes != 0 {
		return wrong("%d samples of %d channels to %d: want at least one, and multiples of %d channels", c.N, c.In, c.Out, lanes)
	}
	out := c.Result()
	for a := range 3 {
		if c.Size[a] < 1 || c.Filter[a] < 1 || c.Stride[a] < 0 || c.Dilation[a] < 0 || c.Pad[a] < 0 || c.Pad[a]+c.ExtraPadEnd[a] < 0 || out[a] < 1 {
			return wrong("axis %d: filter %d, stride %d, dilation %d and pad %d leave nothing", a, c.Filter[a], c.Stride[a], c.Dilation[a], c.Pad[a])
		}
	}
	switch {
	case c.PlaneRowsX != 0 && c.PlaneRowsX < c.Size[1] || c.PlaneRowsY != 0 && c.PlaneRowsY < out[1]:
		return wrong("planes of %d and %d rows in planes of %d and %d", c.Size[1], out[1], c.PlaneRowsX, c.PlaneRowsY)
	case (c.Bias || c.ReLU) && c.Pass != Forward:
		return wrong("a bias or ReLU belongs to the forward direction")
	case c.Add && c.Pass == Forward:
		return wrong("only gradients are added to what is there")
	case c.BiasFloat32 && !c.Bias:
		return wrong("there is no bias to be wide")
	case c.FilterGradFloat32 && c.Pass != FilterGrad:
		return wrong("only the gradient of a filter is stored wide")
	case c.TF32 && c.Type != Float32:
		return wrong("TF32 is a way to multiply float32, not %v", c.Type)
	}
	return nil
}

// Limits say which plans are wanted.
type Limits struct {
	Workspace int64 // bytes at most; 0 wants plans without
	MaxPlans  int   // plans at most; 0 is all that cuDNN proposes, some of which it compiles first
}

// Operands are where the tensors of a convolution lie on the device, aligned to 16 bytes.
type Operands struct {
	X, W, Y   device.Pointer
	Bias      device.Pointer // of a plan that is Fused, if the convolution has one
	Workspace device.Pointer // nil if the plan wants none
}

// Alignment is that of all operands, in bytes.
const Alignment = 16
