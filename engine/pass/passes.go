package pass

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
	"github.com/ensemble-weather/ensemble/internal/exit"
)

// Unit is the state of a compilation, which passes read and change. The caller
// sets the graph, the options, the device and the debug options. Passes replace
// the graph and fill in the result.
type Unit struct {
	Graph *graph.Graph // input and result of every pass
	Options
	Device
	Debug
	Result
}

// Options holds the options of a compilation.
type Options struct {
	// Infer compiles for prediction: no gradients, no assignments, and
	// operations in their inference form.
	Infer bool
	// DonateInputs frees inputs after their last reader; callers then fill them
	// before every run.
	DonateInputs bool
	// MemoryLimit bounds the arena and the kernel workspaces together, in
	// bytes. 0 means no bound.
	MemoryLimit int64
	// Workspace bounds the scratch memory of each kernel in bytes. 0 means no
	// bound.
	Workspace int64
	// Precision is the storage type of the fields inside the network.
	Precision graph.DType
	// BlockMasks holds the block masks of filters, by the names of parameters.
	// The caller guarantees that masked blocks are zero for the life of the
	// plan, or until it replaces the masks (MasksChange).
	BlockMasks map[string]op.BlockMask
	// TwoFourFilters holds the names of parameters that are filters with the 2:4
	// pattern (op.IsTwoFour) for the life of the plan.
	TwoFourFilters map[string]bool
	// GradientMasks replaces the masks of the gradients of filters.
	GradientMasks map[string]op.BlockMask
	// MasksChange reserves scratch memory for the masked convolutions without
	// their masks too (choose-workspaces).
	MasksChange bool
	// Int8 holds the scales of quantised convolutions, by the names of their
	// filters.
	Int8 map[string]*op.Int8Scales
	// MaxFactorSide adds Kronecker factors for K-FAC whose matrices have at most this
	// many rows (add-factors). 0 adds none.
	MaxFactorSide int
	// Forward names the outputs that a run computes first, with the loss: the order of
	// execution begins with what they need. An empty list is the loss
	// alone; nil orders for memory only.
	Forward []string
	// Choices are choices of earlier plans that determine bits (Chosen). A pass
	// repeats them if they fit.
	Choices map[string]string
}

// Device describes the device to the passes, and the operations that run
// outside of its kernels.
type Device struct {
	// ElemBytes is the size of a stored element in bytes.
	ElemBytes int
	// Layouts provides the costs of operations by layout; nil if the backend
	// has one layout only.
	Layouts backend.Layouts
	// Variants lists the kernel variants of operations; nil if there is no choice.
	Variants backend.VariantLister
	// HasTwoFourKernels reports whether the device has kernels for filters with the
	// 2:4 pattern.
	HasTwoFourKernels bool
	// Links describes copies between device and host that run concurrently with
	// kernels. Rates of 0, or a nil function, mean that there are none. It is
	// called only if the memory does not suffice.
	Links func() (Links, error)
	// LinksTo names in notes what the copies go to.
	LinksTo string
	// Seconds estimates the time of a kernel, where copies are possible; 0:
	// unknown. Requests need no memory.
	Seconds func(q backend.Request) float64
	// Foreign reports whether an op runs outside the backend; such ops need no
	// workspace. It may be nil.
	Foreign func(o *graph.Op) bool
	// Native reports whether a foreign op accepts operands in device memory. It
	// may be nil.
	Native func(o *graph.Op) bool
	// ExternalGrads, if not nil, states that kernels of an extension consume the
	// gradients, which then bypass the store. It plans their memory for an order
	// of execution.
	ExternalGrads func(g *graph.Graph, sequence []int) GradMemory
}

// GradMemory is the memory of gradients that an extension consumes.
type GradMemory struct {
	// FreeAfter holds, by node, the position after which the memory of a consumed
	// gradient is free. Gradients that are not in the map are passed on at the
	// end of a run.
	FreeAfter map[int]int
	// KeptSize is the number of elements that the extension keeps of the gradients
	// in the arena, from position KeptFrom to the end of the run and after it.
	KeptSize, KeptFrom int
}

// Debug holds options for inspecting passes.
type Debug struct {
	// Log records choices that could not be repeated; nil disables it.
	Log *slog.Logger
	// AfterPass, if not nil, is called with the graph after each pass.
	AfterPass func(pass string, g *graph.Graph)
}

// Result holds the decisions of passes apart from the graph. Each field names
// its pass.
type Result struct {
	// Factors describes the Kronecker factors of all filters (add-factors).
	Factors []LayerFactors
	// Chosen holds choices that determine bits, by a description of what they
	// apply to (choose-layouts).
	Chosen map[string]string
	// Sequence lists the operations in order of execution (schedule).
	Sequence []int
	// Recomputed sums up the recomputation that saves memory (recompute).
	Recomputed Recomputation
	// VariantOf names the kernel variant of each operation that has several
	// (choose-workspaces).
	VariantOf map[int]string
	// UnmaskedVariantOf names those of masked convolutions without their masks, if
	// masks change (choose-workspaces).
	UnmaskedVariantOf map[int]string
	// ScratchOf is the scratch memory in bytes of each operation that has
	// several variants, with a limit of all operations (choose-workspaces).
	ScratchOf map[int]int64
	// Memory is the place of each value (plan-memory).
	Memory *Memory
}

// Pass is one step of the compiler.
type Pass struct {
	Name    string              // verb in kebab case
	Run     func(u *Unit) error // changes u, or returns an error
	Absence Absence             // what a plan without it computes
	Purpose string              // one line
}

// List is the compiler, in order, and the one table of its passes. It works in five phases:
//
//   - check-shapes to choose-mode check the graph and select training or
//     prediction.
//   - find-zero-blocks to add-factors complete the computation. Later passes
//     change its form, not its value.
//   - fold-constants to fuse-chains simplify and fuse operations.
//   - choose-layouts, quantise and choose-precision decide how values are
//     stored.
//   - remove-dead to plan-memory decide when operations run and where their
//     results lie.
var List = []Pass{
	{"check-shapes", checkShapes, Required, "reject graphs that no backend executes: types, distributions, a missing loss"},
	{"choose-mode", chooseMode, Required, "for prediction, use the inference form of operations and drop assignments"},
	{"find-zero-blocks", findZeroBlocks, SameBits, "mark the zero blocks of convolution filters, and for prediction those with the 2:4 pattern"},
	{"add-gradients", addGradients, Required, "extend the graph by the gradients of the loss with respect to all parameters"},
	{"add-factors", addFactors, Required, "for K-FAC, add the Kronecker factors of layers to the outputs"},
	{"fold-constants", foldConstants, Rounding, "evaluate operations on constants"},
	{"merge-duplicates", mergeDuplicates, SameBits, "compute equal expressions once"},
	{"absorb-broadcasts", absorbBroadcasts, SameBits, "let elementwise operations broadcast their operands themselves"},
	{"fold-norms", foldNorms, Rounding, "for prediction, fold batch normalisation into the preceding convolution"},
	{"fuse", fuse, Rounding, "fuse convolution, bias and ReLU"},
	{"fuse-norms", fuseNorms, Rounding, "fuse batch normalisation and ReLU, and each sweep of their gradient"},
	{"fuse-chains", fuseChains, SameBits, "fuse elementwise operations that lead to one result"},
	{"choose-layouts", chooseLayouts, Rounding, "choose memory layouts that minimise the cost of operations and of layout changes"},
	{"quantise", quantise, Required, "for prediction, quantise convolutions with scales to int8"},
	{"choose-precision", choosePrecision, Required, "set the storage type of the fields inside the network"},
	{"remove-dead", removeDead, Required, "drop values that no output depends on"},
	{"schedule", schedule, Required, "choose the order of execution that needs less memory"},
	{"recompute", recompute, SameBits, "recompute activations, or offload them to host memory, if the memory limit requires it"},
	{"choose-workspaces", chooseWorkspaces, SameBits, "choose the fastest variant of every kernel within the workspace limit"},
	{"plan-memory", planMemory, Required, "place every value in memory, reusing that of dead values"},
}

// Order lists which pass must run before which other one, and why. CheckOrder
// enforces it, so that a reordered list fails at once instead of giving slow or
// wrong plans.
var Order = []struct{ Before, After, Reason string }{
	{"check-shapes", "choose-mode", "later passes assume a legal graph"},
	{"choose-mode", "add-gradients", "gradients differ between the training and the inference form"},
	{"find-zero-blocks", "add-gradients", "the gradients of a convolution skip the same blocks"},
	{"find-zero-blocks", "fold-norms", "a scaled filter is not a parameter"},
	{"add-gradients", "add-factors", "factors are made of the operands of filters' gradients"},
	{"add-factors", "merge-duplicates", "after fusion the gradients have other operands"},
	{"add-gradients", "fold-constants", "the first gradient is a constant that folds into scale factors"},
	{"fold-constants", "merge-duplicates", "folding creates equal constants"},
	{"add-gradients", "merge-duplicates", "gradients repeat expressions of the forward pass"},
	{"add-gradients", "fuse", "the fused operation has no gradient"},
	{"fold-constants", "absorb-broadcasts", "small broadcast constants are folded instead"},
	{"merge-duplicates", "fuse", "a shared intermediate result must not be fused"},
	{"fuse", "choose-layouts", "layouts of fused operations do not count"},
	{"fuse", "quantise", "int8 values are stored after bias and ReLU"},
	{"choose-layouts", "quantise", "int8 kernels work on fields in the inner layout"},
	{"quantise", "choose-precision", "int8 values are not stored as another type"},
	{"quantise", "remove-dead", "the replaced float operations remain as dead nodes"},
	{"choose-layouts", "choose-precision", "other types have kernels for blocked values only"},
	{"choose-precision", "schedule", "sizes depend on the types"},
	{"choose-mode", "fold-norms", "stored statistics replace those of the batch"},
	{"merge-duplicates", "fold-norms", "a shared intermediate result must not be fused"},
	{"fold-norms", "fuse", "a folded convolution is fused with its bias and ReLU"},
	{"fold-norms", "remove-dead", "folding leaves dead nodes"},
	{"fuse", "fuse-norms", "a convolution absorbs ReLU and its gradient at no cost, but for those behind a normalisation"},
	{"add-gradients", "fuse-norms", "the fused operations have no gradient"},
	{"merge-duplicates", "fuse-norms", "a shared intermediate result must not be fused"},
	{"fuse-norms", "choose-layouts", "layouts of fused operations do not count"},
	{"fuse-norms", "remove-dead", "fusing leaves dead nodes"},
	{"fuse", "fuse-chains", "a convolution absorbs sums and the gradient of ReLU at no cost"},
	{"fuse-norms", "fuse-chains", "a normalisation absorbs ReLU and its gradient at no cost"},
	{"add-gradients", "fuse-chains", "the fused operation has no gradient"},
	{"merge-duplicates", "fuse-chains", "a shared intermediate result must not be fused"},
	{"absorb-broadcasts", "fuse-chains", "a chain cannot broadcast an operand that is already broadcast in memory"},
	{"fuse-chains", "choose-layouts", "layouts of fused operations do not count"},
	{"choose-layouts", "remove-dead", "a reordered output may leave a dead value"},
	{"choose-layouts", "recompute", "sizes and costs depend on the layouts"},
	{"fuse", "remove-dead", "fusing leaves dead nodes"},
	{"absorb-broadcasts", "remove-dead", "absorbing leaves dead broadcasts"},
	{"remove-dead", "schedule", "dead operations must not be run"},
	{"merge-duplicates", "recompute", "recomputed operations are duplicates on purpose"},
	{"fuse", "recompute", "costs and sizes depend on the fused operations"},
	{"remove-dead", "recompute", "dead results would count as memory"},
	{"schedule", "recompute", "a later schedule would run recomputed operations early, and keep their results"},
	{"recompute", "plan-memory", "lifetimes follow from the order of execution, recomputation included"},
	{"choose-layouts", "choose-workspaces", "kernels and their workspaces depend on the layouts"},
	{"recompute", "choose-workspaces", "recomputed operations need variants too"},
	{"schedule", "choose-workspaces", "the sequence lists the operations that run"},
	{"choose-workspaces", "plan-memory", "arena and workspaces share the memory limit"},
	{"schedule", "plan-memory", "lifetimes follow from the order of execution"},
}

// CheckOrder verifies that list agrees with Order and contains all required
// passes.
func CheckOrder(list []Pass) error {
	at := func(name string) int {
		return slices.IndexFunc(list, func(p Pass) bool { return p.Name == name })
	}
	for _, o := range Order {
		b, a := at(o.Before), at(o.After)
		if b >= 0 && a >= 0 && b > a {
			return fmt.Errorf("pass %s must come before %s: %s", o.Before, o.After, o.Reason)
		}
	}
	for _, p := range List {
		if p.Absence == Required && at(p.Name) < 0 {
			return fmt.Errorf("pass %s is required: %s", p.Name, p.Purpose)
		}
	}
	return nil
}

// Run runs the passes of list on u and checks the graph after each.
//
// Errors: *exit.Error; exit.Bug if list is out of order or a pass leaves an
// invalid graph; exit.Usage if it lacks a pass that the options need.
func Run(list []Pass, u *Unit) error {
	if err := CheckOrder(list); err != nil {
		return &exit.Error{Code: exit.Bug, What: "invalid list of passes", Why: err.Error(), Fix: "report this", Err: err}
	}
	if err := checkNeeds(list, &u.Options); err != nil {
		return err
	}
	u.Log = cmp.Or(u.Log, slog.New(slog.DiscardHandler))
	for _, p := range list {
		if err := p.Run(u); err != nil {
			return fmt.Errorf("pass %s: %w", p.Name, err)
		}
		if err := u.Graph.Check(); err != nil {
			return fmt.Errorf("after pass %s: %w", p.Name, err)
		}
		if u.AfterPass != nil {
			u.AfterPass(p.Name, u.Graph)
		}
	}
	return nil
}
