// Package backend says what a backend is: a device that prepares one kernel per
// operation of a plan, bound to its memory, and runs code on its own thread.
// The backends are the packages below: ref, the judge, cpu and cuda.
package backend

import (
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/engine/graph"
)

// Tensor is a value bound to memory: F32 or F64, as the backend stores it, U16
// with the bits of a value that is stored as bfloat16 or float16, or U8 with codes.
type Tensor struct {
	Shape  graph.Shape
	Layout graph.Layout
	DType  graph.DType // in which it is stored, where that is float16 or there is no memory yet
	F32    []float32
	F64    []float64
	U16    []uint16
	U8     []uint8
}

// Stored is the type of the elements in memory.
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

// Request asks for the kernel of one operation. The memory stays where it is
// for as long as the kernel lives.
type Request struct {
	Op    *graph.Op
	Attrs any
	In    []Tensor
	Out   Tensor
	// Variant is one of the cuts of the kernel by its name; empty lets the backend guess.
	Variant string
	// Ready is, of a Remote, what is there of each operand before the Finish of the kernel that began it: nil is all of it.
	// The kernel may begin with what reads no more (Kernel.RunEarly). Empty if all of all operands is there.
	Ready []*Region
	// Seed and Step key the random operations; Step is read at each run.
	Seed uint64
	Step *uint64
}

// Region is a box of a value: where it begins, and its sizes.
type Region struct{ Lo, Size graph.Shape }

// InShapes are the shapes of the operands.
func (r *Request) InShapes() []graph.Shape {
	s := make([]graph.Shape, len(r.In))
	for i, t := range r.In {
		s[i] = t.Shape
	}
	return s
}

// Kernel is a prepared operation. Run allocates nothing and decides nothing.
type Kernel struct {
	Name  string // of the implementation, for the printed plan
	Run   func() error
	Close func() // nil if there is nothing to free
	// Finish, if not nil, ends what Run has only started: the result is there when it
	// returns. It is called once in every run, before the first kernel that reads the
	// result, and behind the part of that kernel that does not need it, Early.
	Finish func() error
	// Ready is the part of a result with a Finish that is there behind Run already; nil is none of it.
	Ready *Region
	// RunEarly, if not nil, is a part of the work that reads nothing that a Finish brings. Run
	// follows it and does the rest; in between no other kernel runs.
	RunEarly func() error
	// Scratch is what it wants of the buffer that all kernels of the device use in
	// turn, in bytes.
	Scratch int64
	// SetScratch, if not nil, is told where that scratch lies, before the first run and whenever
	// it moves, in place of Borrower.SetScratch.
	SetScratch func(scratch []float32) error
	// Blocking is true of a kernel of a Remote that waits for the work before it, so that it
	// cannot be part of a recording.
	Blocking bool
	// Async is true of a kernel of a Remote whose Finish waits for nothing: it has the work
	// that is asked for later wait for what Run has begun. Both may be recorded, together.
	Async bool
	// ResultAtEnd is true of a kernel whose result is there only when all kernels have run and what
	// they started beside them has ended (engine.Extension.Finish). If it has a Finish, that is called
	// behind the last kernel.
	ResultAtEnd bool
}

// ScratchSetter is what a backend is beside if its kernels use scratch that it is lent.
type ScratchSetter interface {
	// SetScratch gives the scratch that kernels use until the next call, at least as long as
	// theirs says. Before the first call the backend has its own; those prepared after it
	// get none of that.
	SetScratch(scratch []float32)
}

// Remote is what a backend is beside if it has memory of its own. The tensors of requests
// then lie there, and only kernels and these functions may touch them. All are called
// within Do. Kernels and copies are asked for in one order, and done in it, while the
// caller goes on.
type Remote interface {
	// Alloc gives n elements of the device's memory, all zero.
	//
	// Errors: *exit.Error (exit.NoDevice) if it has no more.
	Alloc(n int) ([]float32, error)
	// AllocHost gives n elements of the program's memory, all zero, that are copied fast.
	AllocHost(n int) ([]float32, error)
	// Free gives back what Make or AllocHost gave.
	Free(x []float32) error
	// Copy copies between memories of any kind.
	Copy(dst, src []float32) error
	// CopyNow begins to copy at once, beside all work: neither memory is in use by work that was
	// asked for, and src is of AllocHost. Work that is asked for after arrived was called finds
	// the copy there. It cannot be recorded.
	CopyNow(dst, src []float32) (arrived func() error, err error)
	// CopyAsync begins to copy behind all work that was asked for so far, and beside what is asked
	// for later; one of the two memories is of AllocHost. Work that is asked for after arrived
	// was called finds the copy there, and may overwrite src. It may be recorded, with the
	// arrived of all it began.
	CopyAsync(dst, src []float32) (arrived func() error, err error)
	// CopyRates are the rates of such copies in bytes a second, to the program's memory and from
	// it; 0 if they gain nothing over computing again.
	CopyRates() (toHost, fromHost float64, err error)
	// FreeBytes is how much memory is left on the device.
	FreeBytes() (int64, error)
	// EstimateSeconds estimates how long a kernel runs. Memory is not needed; it is called outside
	// of Do as well.
	EstimateSeconds(r Request) float64
	// SetStep tells the step whose random numbers the work that follows draws. It is not part
	// of a recording.
	SetStep(step uint64) error
	// Record gives what does again, as a whole, what f asks for, until it is closed; f itself
	// does nothing.
	Record(f func() error) (run, close func() error, err error)
	// Wait returns when all is done.
	//
	// Errors: of any of the work.
	Wait() error
}

// Peers are the devices of a group of ranks, as that of one of them sees them: what they exchange does not pass through
// the memory of the program. All ranks ask for the same in one order. It begins behind all work
// that was asked for so far, is done in the order in which it was asked for, and goes on beside what is asked for later; work
// that is asked for after arrived was called finds it done. All may be recorded, with
// the arrived of what began, either on all ranks or on none. The methods are called within Do.
type Peers interface {
	// AllReduce adds up values of all ranks; each has the sums in their place.
	AllReduce(x ...[]float32) (arrived func() error, err error)
	// AllGather gives all ranks the values of all, as many of each, in the order of ranks; its own are in their place.
	AllGather(all []float32) (arrived func() error, err error)
	// Exchange sends parts to other ranks and receives parts of them. Two ranks name what goes
	// between them in one order.
	Exchange(parts []Transfer) (arrived func() error, err error)
}

// Transfer is what goes to a rank of a group, and what comes from it, if anything.
type Transfer struct {
	Rank       int
	Send, Recv []float32
}

// LayoutOption is one way to run an operation: the layouts in which it takes its
// operands and gives its result, and what that costs.
type LayoutOption struct {
	In   []graph.Layout
	Out  graph.Layout
	Cost float64 // seconds of one core, estimated or measured
}

// Name tells the ways of an operation apart: the first letters of the layouts of
// its operands, and after ">" of its result.
func (w LayoutOption) Name() string {
	var s strings.Builder
	for _, l := range w.In {
		s.WriteByte(l.String()[0])
	}
	return s.String() + ">" + w.Out.String()[:1]
}

// Layouts is what a backend has beside if it stores values in several layouts.
type Layouts interface {
	// InnerLayout is the layout beside the plain one: that of the fields inside a network.
	InnerLayout() graph.Layout
	// LayoutOptions lists the ways to run an operation, at least that with all layouts
	// plain, with estimated costs.
	LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []LayoutOption
	// Measure puts measured costs of these ways in place of the estimates, where
	// the device measures any. It is called outside of Do.
	Measure(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape, ways []LayoutOption) error
	// ReorderCost is the time in seconds of one core to bring a value into a
	// layout from the other. It is called outside of Do.
	ReorderCost(s graph.Shape, to graph.Layout) (float64, error)
	// CanStore tells whether all values that are not plain can be stored as d.
	CanStore(d graph.DType) bool
}

// Variant is one way to cut the work of a kernel into pieces, or to compute it. All cuts of a
// kernel give the same bits on the processor; on a GPU they are the plans of libraries too,
// which do not.
type Variant struct {
	Name  string
	Bytes int64         // scratch
	Time  time.Duration // of a run, estimated or measured
}

// VariantLister is what a backend has beside if kernels can be cut in several ways.
type VariantLister interface {
	// Variants lists the ways to cut the work of an operation, of which the memory
	// is not needed; none if there is no choice. It is called outside of Do.
	Variants(r Request) ([]Variant, error)
	// Scratch is what the kernel of an operation wants, in bytes, in the cut of the
	// request. The memory is not needed; it is called outside of Do.
	Scratch(r Request) (int64, error)
}

// DeviceInfo is what records of a run say of a device.
type DeviceInfo struct {
	Name     string            // "NVIDIA H100 80GB HBM3"
	ID       string            // "GPU-8e7f…", by which the tools of its driver know it; "" if they do not
	Versions map[string]string // of the libraries in use, by their names
}

// InfoProvider is what a backend is beside if its device is another than the processor.
type InfoProvider interface{ DeviceInfo() DeviceInfo }

// Backend is one opened device.
type Backend interface {
	// Name is the name in options and plans.
	Name() string
	// Elem is the type in which values are stored: Float32 or Float64.
	Elem() graph.DType
	// Prepare makes the kernel of one operation. It is called within Do.
	Prepare(r Request) (Kernel, error)
	// Do runs f on the thread of the device and waits for it.
	Do(f func() error) error
	// Close ends the device; kernels are closed before. It may be repeated.
	Close() error
}
