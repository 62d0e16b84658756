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

// Mode says what a plan is for.
type Mode uint8

// The modes.
const (
	// Train computes loss and gradients, and assigns states.
	Train Mode = iota
	// Infer computes outputs (and the loss, if there is one) with the inference
	// form of operations; parameters and states stay as they are.
	Infer
)

// Options of Compile. The zero value trains on the CPU with one thread and a
// store of its own.
type Options struct {
	Mode Mode
	Device
	Numerics
	Memory
	Reuse
	Debug
	// Extension runs operations that the device does not know; nil for none.
	Extension Extension
}

// Device is what computes.
type Device struct {
	Backend string // "cpu" (also if empty), "cuda", "ref", or "auto": cuda where it opens, else cpu
	Threads int    // of the device; 0 means 1
}

// Numerics are the options that change bits.
type Numerics struct {
	// Precision is the type in which the fields inside the network are stored: "f32" (also
	// if empty), or "bf16" for half of the memory. Parameters, their gradients, statistics
	// and the loss are float32, and so is arithmetic; with "bf16_products" convolutions also
	// multiply bfloat16, with sums in float32. Backend "cuda" stores them as "f16" too, and
	// multiplies what it stores; gradients are then those of a multiple of the loss
	// (Plan.ScaleLoss). "tf32" stores float32 and lets backend "cuda" round what
	// convolutions multiply to 11 bits; elsewhere it is "f32".
	Precision string
	// Winograd admits convolutions by Winograd's products on backend "cpu": faster
	// on larger fields, with results that differ by a few 1e-6.
	Winograd bool
	// UseHeuristics chooses kernels by a fixed rule and layouts by estimates instead of
	// timing them: Compile is quick, and every process on this kind of machine gets
	// the same bits.
	UseHeuristics bool
	// Float64 keeps all values of backend "ref" in float64 instead of rounding
	// each to float32.
	Float64 bool
	// Int8 has the convolutions of a prediction whose filters are named multiply codes of
	// eight bits, with these scales.
	Int8 map[string]*op.Int8Scales
	// BlockMasks promises for filters, by the names of parameters, that the blocks that are not
	// kept are zero whenever the plan runs (op.KeptOf); kernels skip them where they were
	// measured to be faster so, and the gradients of these blocks are zero. It changes no
	// other bit.
	BlockMasks map[string]op.BlockMask
}

// Memory bounds the memory of a plan.
type Memory struct {
	// Limit bounds the arena and the scratch of kernels together, in bytes; 0
	// means no bound, or on a device with memory of its own what that has left. It changes no
	// bit, but for those of a GPU whose fastest convolutions want more scratch than it leaves.
	Limit int64
	// Workspace bounds the scratch that kernels use in turn, in bytes; 0 means no
	// bound. It changes bits as Limit does.
	Workspace int64
	// DonateInputs lets a run overwrite its inputs once they are read for the last time: they are
	// filled before every run, and their memory is that of other values too.
	DonateInputs bool
}

// Reuse is what plans have in common.
type Reuse struct {
	Store *Store // of parameters and states; nil: a new one
	// Choices repeats the kernels and layouts that an earlier plan chose (see
	// Plan.Choices), so that a resumed run gives the same bits. What this version
	// or machine does not serve is chosen anew.
	Choices map[string]string
	// Timings holds what was measured on this machine before, and gets what
	// Compile measures; the caller saves it. Nil: the ways that cut a kernel's
	// work are guessed, which change its speed and never its result, and layouts
	// are chosen by estimates of what they cost.
	Timings *tune.Table
}

// Debug is for those who look at plans.
type Debug struct {
	// Profile measures the time of every kernel, for Explain.
	Profile bool
	// Passes replaces the compiler's list of passes; nil means pass.List.
	Passes []pass.Pass
	// AfterPass, if not nil, sees the graph after each pass.
	AfterPass func(pass string, g *graph.Graph)
	// Log receives what a developer may want to know; nil is silent.
	Log *slog.Logger
}

// Extension runs operations of a plan outside of the device's kernels: between ranks, say.
type Extension interface {
	// Kernels prepare operations that the device does not know, by name.
	Kernels() map[string]func(backend.Request) (backend.Kernel, error)
	// OnOpen gets the device before anything is compiled for it. Of the operations
	// of Kernels it names those whose operands lie where the device has them, in any of its layouts
	// if they say so (graph.Op.AnyLayout); on a device with memory of its own the others run on
	// copies.
	OnOpen(dev backend.Backend) (native map[string]bool, err error)
	// AllReduceMax has several plans that run together decide alike: it gives the largest
	// of each of their numbers.
	AllReduceMax([]int64) error
	// OnRunEnd is called within Do behind every wait for the end of a run on a device with memory of its own, with
	// its error, and may give another.
	OnRunEnd(err error) error
	// OnClose is called within Do when a plan is closed, behind all that it has asked for, and when none could be
	// made for a device that Opened got.
	OnClose() error
	// Finish is called in every run behind the last kernel, or the one that
	// failed with err, before outputs and gradients are read: it ends what kernels of
	// Kernels have started. The run fails with the error that it returns.
	Finish(err error) error
	// TakeGrad is called at the end of every run with each gradient that no
	// kernel of Kernels has taken, where those take gradients (pass.Unit.Taken). One that is
	// zero, since the loss does not depend on the parameter, has no memory.
	TakeGrad(param string, g backend.Tensor)
}

// NoExtension is an Extension that does nothing; others embed it.
type NoExtension struct{}

// Kernels are none.
func (NoExtension) Kernels() map[string]func(backend.Request) (backend.Kernel, error) { return nil }

// OnOpen names nothing.
func (NoExtension) OnOpen(backend.Backend) (map[string]bool, error) { return nil, nil }

// AllReduceMax leaves all numbers: there is one plan.
func (NoExtension) AllReduceMax([]int64) error { return nil }

// OnRunEnd is the error of the run.
func (NoExtension) OnRunEnd(err error) error { return err }

// OnClose has nothing to close.
func (NoExtension) OnClose() error { return nil }

// Finish is the error of the kernels.
func (NoExtension) Finish(err error) error { return err }

// TakeGrad takes nothing.
func (NoExtension) TakeGrad(string, backend.Tensor) {}

// FinishFunc is an Extension that calls f behind the kernels of every run (Extension.Finish).
func FinishFunc(f func(err error) error) Extension { return finishExtension{finish: f} }

type finishExtension struct {
	NoExtension
	finish func(err error) error
}

// Finish calls the function.
func (a finishExtension) Finish(err error) error { return a.finish(err) }

// check completes the options.
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
	if o.Store == nil {
		o.Store = NewStore()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if _, ok := precisions[cmp.Or(o.Precision, "f32")]; !ok {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("engine options: precision %q", o.Precision),
			Why: "known are " + strings.Join(Precisions(), ", "), Fix: "choose one of these"}
	}
	if o.Workspace < 0 {
		return &exit.Error{Code: exit.Usage, What: fmt.Sprintf("engine options: a workspace of %d bytes", o.Workspace),
			Why: "the bound is positive, or 0 for none", Fix: "choose another"}
	}
	if o.Threads < 0 || o.Float64 && o.Backend != "ref" {
		return &exit.Error{Code: exit.Usage,
			What: fmt.Sprintf("engine options: %d threads, float64 %v on backend %q", o.Threads, o.Float64, o.Backend),
			Why:  "threads must be positive, and only backend ref computes in float64",
			Fix:  "choose other options"}
	}
	return nil
}

// precisions are the types that Options.Precision names.
var precisions = map[string]graph.DType{"f32": graph.Float32, "tf32": graph.Float32, "bf16": graph.BFloat16, "bf16_products": graph.BFloat16, "f16": graph.Float16}

// Precisions are the names of Options.Precision.
func Precisions() []string { return slices.Sorted(maps.Keys(precisions)) }

// ScalesLoss tells whether gradients in a precision are those of a multiple of the loss
// (Plan.ScaleLoss).
func ScalesLoss(precision string) bool { return precisions[precision] == graph.Float16 }

// Backend is a kind of device that a plan can run on.
type Backend struct {
	Name, Purpose string
	Open          func(Options) (backend.Backend, error)
}

// Backends lists them, the default first.
var Backends = []Backend{
	{"cpu", "oneDNN and kernels of our own, float32", func(o Options) (backend.Backend, error) {
		return cpu.Open(cpu.Options{Threads: o.Threads, Winograd: o.Winograd, UseHeuristics: o.UseHeuristics, Choices: o.Choices, Timings: o.Timings,
			BF16Products: o.Precision == "bf16_products"})
	}},
	{"cuda", "NVIDIA GPU: cuDNN and kernels of our own, float32, bfloat16 and float16", func(o Options) (backend.Backend, error) {
		return cuda.Open(cuda.Options{Choices: o.Choices, TF32: o.Precision == "tf32"})
	}},
	{"ref", "plain Go with float64 sums: the judge of the others", func(o Options) (backend.Backend, error) {
		return ref.New(ref.Options{RoundFloat32: !o.Float64}), nil
	}},
}

// open opens the device that o names.
func open(o Options) (backend.Backend, error) {
	if o.Backend == "auto" {
		o.Backend = "cuda"
		b, err := open(o)
		if exit.CodeOf(err) != exit.NoDevice {
			return b, err
		}
		o.Log.Info("no GPU is used", "error", err)
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
		Why: "known are" + known, Fix: "choose one of these"}
}
