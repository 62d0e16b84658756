package engine

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda"
	"github.com/ensemble-weather/ensemble/engine/backend/ref"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/engine/pass"
	"github.com/ensemble-weather/ensemble/engine/tune"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Mode is the purpose of a plan.
type Mode uint8

// The modes.
const (
	// Train computes loss and gradients, and assigns states.
	Train Mode = iota
	// Infer computes outputs, and the loss if there is one, with the inference
	// form of operations. Parameters and states do not change.
	Infer
)

// Options of Compile. The zero value trains on the CPU with one thread and a
// new store.
type Options struct {
	Mode Mode
	// MaxFactorSide makes a training step compute the Kronecker factors of its layers too, as outputs
	// (Plan.Factors), if no side of them exceeds it. 0 computes none.
	MaxFactorSide int
	Device
	Numerics
	Memory
	Reuse
	Debug
	// Extension runs operations for which the device has no kernels. Nil means
	// none.
	Extension Extension
	// Forward names the outputs of the forward part of a run, to which the loss belongs too, if runs are divided
	// (Plan.RunForward). An empty list is the loss alone; nil means one part.
	Forward []string
}

// Device selects the device.
type Device struct {
	// Backend is "cpu" (default), "cuda", "ref", or "auto": cuda if a GPU is
	// available, else cpu.
	Backend string
	Threads int // CPU threads; 0 means 1
}

// Numerics are the options that change bits of the results.
type Numerics struct {
	// Precision is the storage type of the fields inside the network.
	// Parameters, their gradients, statistics and the loss are always float32,
	// and so is arithmetic unless stated otherwise:
	//
	//   - "f32" (default): float32.
	//   - "bf16": bfloat16, half of the memory. On cuda, convolutions multiply
	//     bfloat16.
	//   - "bf16_products": bfloat16. On cpu, convolutions multiply bfloat16
	//     too, with float32 sums.
	//   - "f16": float16, cuda only. Gradients are those of a multiple of the
	//     loss (Plan.ScaleLoss).
	//   - "tf32": float32. On cuda, convolutions round their factors to 11
	//     significant bits; elsewhere as "f32".
	Precision string
	// Winograd admits Winograd's minimal filtering for convolutions on cpu. It
	// is faster on larger fields. Results differ by a few 1e-6.
	Winograd bool
	// UseHeuristics chooses kernels by a fixed rule and layouts by estimates,
	// without timing. Compile is fast, and every process on machines of this
	// kind gives the same bits.
	UseHeuristics bool
	// Without names optional passes that the compiler leaves out (pass.List states which of them change bits).
	Without []string
	// Float64 keeps all values of backend ref in float64. Otherwise ref rounds
	// each value to float32.
	Float64 bool
	// Int8 holds the scales of quantised convolutions, by the names of their
	// filters. They multiply int8 values. For predictions only; nil quantises
	// nothing.
	Int8 map[string]*op.Int8Scales
	// BlockMasks holds the block masks of filters, by the names of parameters.
	// The caller guarantees that the masked blocks are zero whenever the plan
	// runs. Kernels skip them where measurements show that this is faster.
	// Gradients of masked blocks are zero; no other bit changes.
	BlockMasks map[string]op.BlockMask
	// TwoFourFilters holds the names of parameters that are filters with the 2:4
	// pattern (op.IsTwoFour). The caller guarantees this whenever the plan runs. GPUs with
	// sparse tensor cores then may multiply without the zeros, where that is measured to be
	// faster. For predictions only.
	TwoFourFilters map[string]bool
	// GradientMasks replaces the block masks of the gradients of filters that have one in
	// BlockMasks. Filters that it does not list have the same masks for both.
	GradientMasks map[string]op.BlockMask
	// MasksChange lets Plan.SetBlockMasks replace the block masks between runs, by
	// masks of as many kept blocks. Scratch memory suffices for filters without a
	// mask too.
	MasksChange bool
}

// Memory limits the memory of a plan.
type Memory struct {
	// Limit bounds the arena and the kernel workspaces together, in bytes. 0
	// means no bound, or on a device with memory of its own the free memory. It
	// changes bits only on a GPU, where a smaller workspace may exclude the
	// fastest convolution.
	Limit int64
	// Workspace bounds the scratch memory of each kernel, in bytes; kernels use
	// it in turn. 0 means no bound. It changes bits as Limit does.
	Workspace int64
	// OffloadFolder is a folder for a file to which results of the forward pass
	// are copied and read back where they do not fit Limit and the copies take
	// less time than to compute them again. Of float32 backends without memory of
	// their own; "" means none. It changes no bit.
	OffloadFolder string
	// OffloadRate is the rate of copies to that file and back, in bytes per second; 0: measured.
	OffloadRate float64
	// DonateInputs allows a run to overwrite its inputs after their last use,
	// as donated buffers in JAX. Inputs must then be filled before every run.
	// Their memory is reused for other values.
	DonateInputs bool
}

// Reuse holds what plans share.
type Reuse struct {
	Store *Store // parameters and states; nil creates a new store
	// Choices repeats the kernels and layouts of an earlier plan (see
	// Plan.Choices), so that a resumed run gives the same bits. Choices that
	// this version or machine does not support are made anew.
	Choices map[string]string
	// Timings holds kernel timings of this machine. Compile adds its
	// measurements, and the caller saves them. Nil disables measurements. Then
	// kernel variants, which change only the speed, and layouts are chosen by
	// estimates.
	Timings *tune.Table
}

// Debug holds options for inspecting plans.
type Debug struct {
	// Profile measures the time of every kernel, for Explain.
	Profile bool
	// Passes replaces the list of passes; nil means pass.List.
	Passes []pass.Pass
	// AfterPass, if not nil, is called with the graph after each pass.
	AfterPass func(pass string, g *graph.Graph)
	// Log receives messages for developers, and warnings of Compile; nil disables
	// them.
	Log *slog.Logger
}

// Extension runs operations outside of the kernels of a device, such as
// communication between ranks.
type Extension interface {
	// Kernels returns functions that prepare the kernels of operations, by
	// operation name.
	Kernels() map[string]func(backend.Request) (backend.Kernel, error)
	// OnOpen is called with the device before anything is compiled for it.
	// native names the operations of Kernels that accept operands in device
	// memory, in any layout if graph.Op.AnyLayout is set. On a device
	// with memory of its own the other operations run on copies in host memory.
	OnOpen(dev backend.Backend) (native map[string]bool, err error)
	// AllReduceMax replaces each number by its maximum over all plans that run
	// together, so that they make the same decisions.
	AllReduceMax([]int64) error
	// OnRunEnd is called within Do after every wait for the end of a run on a
	// device with memory of its own. It receives the error of the run and
	// returns the error to report.
	OnRunEnd(err error) error
	// OnClose is called within Do when a plan is closed, after all work that it
	// enqueued. It is also called if Compile fails after OnOpen.
	OnClose() error
	// Finish is called in every run after the last kernel, or after the one
	// that failed with err, before outputs and gradients are read. It waits for
	// the work that kernels of Kernels have started. The run fails with the
	// error that it returns.
	Finish(err error) error
	// TakeGrad is called at the end of every run with each gradient that no
	// kernel of Kernels has taken, if kernels take gradients
	// (pass.Device.ExternalGrads). The tensor has no memory if the gradient is
	// zero because the loss does not depend on the parameter.
	TakeGrad(param string, g backend.Tensor)
}

// NoExtension is an Extension that does nothing. Other extensions embed it.
type NoExtension struct{}

// Kernels returns none.
func (NoExtension) Kernels() map[string]func(backend.Request) (backend.Kernel, error) { return nil }

// OnOpen names no operations.
func (NoExtension) OnOpen(backend.Backend) (map[string]bool, error) { return nil, nil }

// AllReduceMax keeps all numbers: there is one plan.
func (NoExtension) AllReduceMax([]int64) error { return nil }

// OnRunEnd returns the error of the run.
func (NoExtension) OnRunEnd(err error) error { return err }

// OnClose does nothing.
func (NoExtension) OnClose() error { return nil }

// Finish returns the error of the kernels.
func (NoExtension) Finish(err error) error { return err }

// TakeGrad does nothing.
func (NoExtension) TakeGrad(string, backend.Tensor) {}

// FinishFunc returns an Extension that calls f after the kernels of every run
// (Extension.Finish).
func FinishFunc(f func(err error) error) Extension { return finishExtension{finish: f} }

// finishExtension is an Extension with a function for Finish.
type finishExtension struct {
	NoExtension
	finish func(err error) error
}

// Finish calls the function.
func (a finishExtension) Finish(err error) error { return a.finish(err) }

// check sets defaults and rejects invalid options.
//
// Errors: *exit.Error (exit.Usage).
func (o *Options) check() error {
	if o.Backend == "" {
		o.Backend = "cpu"
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	if o.Passes == nil {
		o.Passes = pass.List
	}
	var err error
	if o.Passes, err = pass.Without(o.Passes, o.Without); err != nil {
		return err
	}
	if o.Store == nil {
		o.Store = NewStore()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if _, ok := precisions[cmp.Or(o.Precision, "f32")]; !ok {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("engine options: precision %q", o.Precision),
			Why: "valid are " + strings.Join(Precisions(), ", "), Fix: "use one of these"}
	}
	if o.Workspace < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("engine options: workspace of %d bytes", o.Workspace),
			Why: "the limit must be positive, or 0 for no limit", Fix: "set the workspace to 0 or more"}
	}
	if o.Threads < 0 || o.Float64 && o.Backend != "ref" {
		return &exit.Error{Code: exit.Usage,
			What: fmt.Sprintf("engine options: %d threads, float64 %v on backend %q", o.Threads, o.Float64, o.Backend),
			Why:  "threads must be at least 0, and only backend ref computes in float64",
			Fix:  "use a positive number of threads, and float64 with backend ref only"}
	}
	return nil
}

// precisions maps the names of Options.Precision to storage types.
var precisions = map[string]graph.DType{"f32": graph.Float32, "tf32": graph.Float32, "bf16": graph.BFloat16, "bf16_products": graph.BFloat16, "f16": graph.Float16}

// Precisions are the valid values of Options.Precision, sorted.
func Precisions() []string { return slices.Sorted(maps.Keys(precisions)) }

// ScalesLoss reports whether gradients in a precision are those of a multiple
// of the loss (Plan.ScaleLoss).
func ScalesLoss(precision string) bool { return precisions[precision] == graph.Float16 }

// Backend is a kind of device that a plan can run on.
type Backend struct {
	Name, Purpose string
	Open          func(Options) (backend.Backend, error)
}

// Backends lists the backends, the default first.
var Backends = []Backend{
	{"cpu", "oneDNN and own kernels, float32", func(o Options) (backend.Backend, error) {
		return cpu.Open(cpu.Options{Threads: o.Threads, Winograd: o.Winograd, UseHeuristics: o.UseHeuristics, Choices: o.Choices, Timings: o.Timings,
			BF16Products: o.Precision == "bf16_products"})
	}},
	{"cuda", "NVIDIA GPU: cuDNN and own kernels, float32, bfloat16 and float16", func(o Options) (backend.Backend, error) {
		return cuda.Open(cuda.Options{Choices: o.Choices, TF32: o.Precision == "tf32"})
	}},
	{"ref", "plain Go with float64 sums: the reference for the other backends", func(o Options) (backend.Backend, error) {
		return ref.New(ref.Options{RoundFloat32: !o.Float64}), nil
	}},
}

// open opens the device of o. "auto" falls back to cpu if no GPU is available.
func open(o Options) (backend.Backend, error) {
	if o.Backend == "auto" {
		o.Backend = "cuda"
		b, err := open(o)
		if exit.CodeOf(err) != exit.NoDevice {
			return b, err
		}
		o.Log.Debug("no GPU available, using the CPU", "error", err)
		o.Backend = "cpu"
	}
	known := ""
	for _, b := range Backends {
		if b.Name == o.Backend {
			return b.Open(o)
		}
		known += " " + b.Name
	}
	return nil, &exit.Error{Code: exit.Usage, What: fmt.Sprintf("unknown backend %q", o.Backend),
		Why: "valid are" + known, Fix: "use one of these"}
}
