// Package backend defines what a backend is: a device that prepares one kernel for each
// operation of a plan, bound to its memory, and runs code on its own thread.
//
// A backend implements Backend. The other interfaces are optional; package engine tests
// for them with a type assertion:
//
//   - ScratchSetter: kernels share a scratch buffer of the caller,
//   - Layouts: values can be stored in a second layout,
//   - DirectInt8, Int8Chooser: how quantised convolutions run,
//   - VariantLister: kernels have several variants to choose from,
//   - Remote: the device has memory of its own,
//   - Updater: parameters are updated in that memory,
//   - TwoFourSkipper: convolutions may have kernels for 2:4 filters,
//   - InfoProvider: the device has a name and library versions.
//
// The backends are the packages below: ref, the reference in float64; cpu; and cuda.
package backend

import (
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Tensor is a value bound to memory. Exactly one slice is set: F32 or F64 for values
// computed by the backend, U16 for the bits of bfloat16 or float16, U8 for int8
// inference. None is set if there is no memory yet.
type Tensor struct {
	Shape  graph.Shape
	Layout graph.Layout
	DType  graph.DType // storage type if it is float16 or there is no memory yet
	F32    []float32
	F64    []float64
	U16    []uint16
	U8     []uint8
}

// Stored returns the type of the elements in memory.
func (t Tensor) Stored() graph.DType {
	switch {
	case t.U16 != nil && t.DType != graph.Float16:
		return graph.BFloat16
	case t.U8 != nil:
		return graph.UInt8
	case t.F64 != nil:
		return graph.Float64
	case t.F32 != nil:
		return graph.Float32
	}
	return t.DType
}

// Request describes the kernel of one operation. Its memory must not move while the
// kernel is in use.
type Request struct {
	Op    *graph.Op // the operation
	Attrs any       // its attributes, of the type of the operation
	In    []Tensor  // operands
	Out   Tensor    // result
	// Variant is the name of a kernel variant (VariantLister); "" lets the backend choose.
	Variant string
	// Ready holds, for each operand, the region whose data are available before the Finish
	// of the kernel that produces it; nil means all of it. The kernel may compute what
	// depends on no other data early (Kernel.RunEarly). Empty: all data are available.
	// Only for a Remote.
	Ready []*Region
	// Seed and Step key the random numbers of the operation. Step is read in every run.
	Seed uint64
	Step *uint64
}

// Region is a box of a value: its first index and its size along each axis.
type Region struct{ Lo, Size graph.Shape }

// InShapes returns the shapes of the operands.
func (r *Request) InShapes() []graph.Shape {
	s := make([]graph.Shape, len(r.In))
	for i, t := range r.In {
		s[i] = t.Shape
	}
	return s
}

// Kernel is a prepared operation. Run allocates nothing.
//
// An operation with communication is split: Run starts it, Finish completes it. Between
// them other kernels run, among them the part of the next kernel that needs no received
// data (RunEarly).
type Kernel struct {
	Name  string       // of the implementation, for printed plans
	Run   func() error // computes the result, or starts to
	Close func()       // frees what the kernel holds; nil if there is nothing to free
	// Finish, if not nil, completes what Run has started; then the result is available. It
	// is called once in every run, before the first kernel that reads the result, and
	// after the RunEarly of that kernel.
	Finish func() error
	// Ready is the region of the result of a kernel with Finish that is available right
	// after Run; nil is none of it.
	Ready *Region
	// RunEarly, if not nil, computes the part that reads only ready regions of the
	// operands. Run follows and computes the rest. No other kernel runs in between.
	RunEarly func() error
	// Scratch is the size in bytes that the kernel uses of the scratch buffer, which all
	// kernels of the device share.
	Scratch int64
	// SetScratch, if not nil, sets the scratch buffer of this kernel, in place of
	// ScratchSetter. It is called before the first run and whenever the buffer moves.
	SetScratch func(scratch []float32) error
	// Blocking marks a kernel of a Remote that waits until the device has finished earlier
	// work. It cannot be part of a recording.
	Blocking bool
	// Async marks a kernel of a Remote whose Finish does not block: it makes later work on
	// the device wait for what Run has started. Both can be recorded together.
	Async bool
	// ResultAtEnd marks a kernel whose result is available only after all kernels have run
	// and all asynchronous work has ended (engine.Extension.Finish). Its Finish, if any,
	// is called after the last kernel.
	ResultAtEnd bool
}

// ScratchSetter is implemented by backends whose kernels share a scratch buffer of the
// caller.
type ScratchSetter interface {
	// SetScratch sets the buffer that kernels use until the next call. It must be at least
	// as long as the largest Kernel.Scratch. Before the first call the backend uses a
	// buffer of its own; kernels prepared afterwards do not extend that one.
	SetScratch(scratch []float32)
}

// Remote is implemented by backends whose device has memory of its own. Tensors of
// requests are in that memory, which only kernels and these methods may access. All
// methods are called within Do, unless stated otherwise.
//
// Kernels and copies are enqueued in one order and executed in that order, while the
// caller continues (a CUDA stream).
type Remote interface {
	// Alloc allocates n elements in the memory of the device, all zero.
	//
	// Errors: *exit.Error (exit.NoDevice) if the memory does not suffice.
	Alloc(n int) ([]float32, error)
	// AllocHost allocates n elements in page-locked memory of the host, all zero. Copies
	// from and to it run at full speed.
	AllocHost(n int) ([]float32, error)
	// Free frees memory from Alloc or AllocHost.
	Free(x []float32) error
	// Copy copies between memories of any kind, in the order of the stream.
	Copy(dst, src []float32) error
	// CopyNow starts a copy from host memory of AllocHost without waiting for enqueued
	// work; none of that work may use dst or src. Work enqueued after the call of arrived
	// waits for the copy. It cannot be recorded.
	CopyNow(dst, src []float32) (arrived func() error, err error)
	// CopyAsync starts a copy that waits for all work enqueued so far and runs
	// concurrently with later work. One of dst and src is memory of AllocHost. Work
	// enqueued after the call of arrived waits for the copy, and may overwrite src. It can
	// be recorded, if arrived is called in the same recording.
	CopyAsync(dst, src []float32) (arrived func() error, err error)
	// CopyRates returns the bandwidths of CopyAsync in bytes per second, to the host and
	// from it; 0 if copies are not faster than recomputation.
	CopyRates() (toHost, fromHost float64, err error)
	// FreeBytes returns the free memory of the device.
	FreeBytes() (int64, error)
	// EstimateSeconds estimates the run time of a kernel. The request needs no memory. It
	// may be called outside of Do.
	EstimateSeconds(r Request) float64
	// SetStep sets the step that keys the random numbers of the work that follows. It
	// cannot be recorded.
	SetStep(step uint64) error
	// Record returns a function that repeats, as a whole, the work that f enqueues, until
	// it is closed (a CUDA graph). The work of f itself is not executed.
	Record(f func() error) (run, close func() error, err error)
	// Wait blocks until all enqueued work is done.
	//
	// Errors: those of any of that work.
	Wait() error
}

// Peers are the collective operations of a group of ranks between the memories of their
// devices, without the memory of the host.
//
// All ranks of the group call the same methods in the same order. A collective waits
// for all work enqueued so far, runs after earlier collectives and concurrently with
// later work. Work enqueued after the call of arrived waits for it. It can be recorded,
// on all ranks or on none, if arrived is called in the same recording. All methods are
// called within Do.
type Peers interface {
	// AllReduce replaces values on all ranks by their sums over ranks.
	AllReduce(x ...[]float32) (arrived func() error, err error)
	// AllGather distributes the values of all ranks, of equal number, to all ranks, in the
	// order of ranks. The values of the caller are in their place in all.
	AllGather(all []float32) (arrived func() error, err error)
	// Exchange sends data to other ranks and receives data from them (halo exchange). Each
	// pair of ranks lists its transfers in the same order.
	Exchange(parts []Transfer) (arrived func() error, err error)
}

// Transfer is the data that a rank sends to another rank of its group and receives from
// it; each may be empty.
type Transfer struct {
	Rank       int
	Send, Recv []float32
}

// LayoutOption is a set of layouts in which an operation can run, with its cost.
type LayoutOption struct {
	In   []graph.Layout
	Out  graph.Layout
	Cost float64 // seconds of one core or of the device, estimated or measured
}

// Name identifies the option: the first letters of the layouts of the operands and,
// after ">", of the result, such as "bpp>b".
func (w LayoutOption) Name() string {
	var s strings.Builder
	for _, l := range w.In {
		s.WriteByte(l.String()[0])
	}
	return s.String() + ">" + w.Out.String()[:1]
}

// Layouts is implemented by backends that can store values in a second layout.
type Layouts interface {
	// InnerLayout returns the second layout, for fields inside a network.
	InnerLayout() graph.Layout
	// LayoutOptions lists the options of an operation with estimated costs, at least the
	// one in which all layouts are plain.
	LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []LayoutOption
	// Measure replaces estimated costs by measured ones, if the device measures any. It is
	// called outside of Do.
	Measure(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape, ways []LayoutOption) error
	// ReorderCost returns the seconds of one core to convert a value to a layout. It is
	// called outside of Do.
	ReorderCost(s graph.Shape, to graph.Layout) (float64, error)
	// CanStore reports whether all values in the second layout can be stored as d.
	CanStore(d graph.DType) bool
}

// DirectInt8 is implemented by backends some of whose int8 convolutions are direct (op.Int8Conv).
type DirectInt8 interface {
	// MultipliesDirectly reports whether an int8 convolution of such operands is direct. It depends on
	// the processor, as the bits do.
	MultipliesDirectly(attrs any, in []graph.Shape) bool
}

// Int8Chooser is implemented by backends on which only some convolutions with int8 scales
// run in int8. On others all do whose fields are in the inner layout.
type Int8Chooser interface {
	// RunsInt8 reports whether an int8 convolution of such operands, with a result of shape
	// out, runs in int8 instead of a dense one with fields stored as such. It is called
	// outside of Do.
	RunsInt8(attrs any, in []graph.Shape, out graph.Shape, stored graph.DType) bool
}

// Variant is one implementation of a kernel, or one way to divide its work. On
// processors all variants of a kernel give the same bits. On GPUs they include plans of
// cuDNN, which do not.
type Variant struct {
	Name  string
	Bytes int64         // scratch
	Time  time.Duration // of a run, estimated or measured
}

// VariantLister is implemented by backends whose kernels have several variants.
type VariantLister interface {
	// Variants lists the variants of an operation; none if there is no choice. The request
	// needs no memory. It is called outside of Do.
	Variants(r Request) ([]Variant, error)
	// Scratch returns the bytes of scratch of the kernel in the variant of the request.
	// The request needs no memory. It is called outside of Do.
	Scratch(r Request) (int64, error)
}

// DeviceInfo identifies a device in records of a run.
type DeviceInfo struct {
	Name     string            // such as "NVIDIA H100 80GB HBM3"
	ID       string            // such as "GPU-8e7f…", as nvidia-smi shows it; "" if it has none
	Versions map[string]string // of the libraries in use, by name
}

// TwoFourSkipper is implemented by backends whose devices may multiply 2:4 filters
// (op.IsTwoFour) without their zeros.
type TwoFourSkipper interface {
	// HasTwoFourKernels reports whether this device does, for fields in bfloat16 and
	// float16.
	HasTwoFourKernels() bool
}

// InfoProvider is implemented by backends whose device is not the processor.
type InfoProvider interface{ DeviceInfo() DeviceInfo }

// Backend is an open device.
type Backend interface {
	// Name returns the name used in options and plans.
	Name() string
	// Elem returns the type in which values are stored: Float32 or Float64.
	Elem() graph.DType
	// Prepare prepares the kernel of one operation. It is called within Do.
	Prepare(r Request) (Kernel, error)
	// Do runs f on the thread of the device and waits for it.
	Do(f func() error) error
	// Close closes the device; kernels are closed before. It may be called more than once.
	Close() error
}
