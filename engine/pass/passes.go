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

// Unit is what is being compiled: passes read and change it.
type Unit struct {
	Graph *graph.Graph
	Options
	Device
	Debug
	Result
}

// Options is what the caller asks for.
type Options struct {
	// Infer compiles for prediction: no gradients, no assignments, operations
	// in their inference form.
	Infer bool
	// DonateInputs frees inputs behind their last reader: they are filled before every run.
	DonateInputs bool
	// MemoryLimit bounds the arena and the scratch of kernels together, in bytes; 0
	// means no bound.
	MemoryLimit int64
	// Workspace bounds the scratch of each kernel in bytes; 0 means no bound.
	Workspace int64
	// Precision is the type in which the fields inside the network are stored.
	Precision graph.DType
	// BlockMasks says of filters, by the names of parameters, which blocks are kept; the caller
	// promises that the others are zero as long as the plan lives.
	BlockMasks map[string]op.BlockMask
	// Int8 are the scales of convolutions that multiply codes of eight bits, by the names of
	// their filters.
	Int8 map[string]*op.Int8Scales
	// Choices are those of earlier plans that decide bits (Chosen); a pass takes
	// them again if they fit.
	Choices map[string]string
}

// Device is what passes know of the device, and of what runs beside its kernels.
type Device struct {
	// ElemBytes is the size of one stored element.
	ElemBytes int
	// Layouts gives the costs of operations by layout; nil if the backend
	// has one layout only.
	Layouts backend.Layouts
	// Cuts gives the ways to cut the work of kernels; nil if there is no choice.
	Cuts backend.VariantLister
	// Links are the rates of copies to the program's memory and back beside the work, in
	// bytes a second; nil or rates of 0 if there are none. It is called if the memory does
	// not suffice.
	Links func() (toHost, fromHost float64, err error)
	// Seconds estimates the time of a kernel where there are links. The memory is not needed.
	Seconds func(q backend.Request) float64
	// Foreign reports whether an operation runs outside of the backend; such operations use no
	// scratch. It may be nil.
	Foreign func(o *graph.Op) bool
	// Native reports which among them work where the device has their operands.
	Native func(o *graph.Op) bool
	// ExternalGrads, if not nil, keeps gradients out of the store: kernels take them where they
	// are made. Of those that they take before the end of a run, it gives, for an order of
	// execution, the place in it behind which their memory is free.
	ExternalGrads func(g *graph.Graph, sequence []int) map[int]int
}

// Debug is for those who look at passes.
type Debug struct {
	// Log records choices that could not be repeated; nil is silent.
	Log *slog.Logger
	// AfterPass, if not nil, is called with the graph after each pass.
	AfterPass func(pass string, g *graph.Graph)
}

// Result is what passes decide beside the graph; in brackets which.
type Result struct {
	// Chosen is what passes chose that decides bits, by what it was chosen for
	// (choose-layouts).
	Chosen map[string]string
	// Sequence lists the operations in order of execution (schedule).
	Sequence []int
	// Recomputed sums up what is computed again to save memory (recompute).
	Recomputed Recomputation
	// CutOf names the cut of each operation that has a choice (choose-workspaces).
	CutOf map[int]string
	// Scratch is the most that a kernel uses, in bytes, if there is a bound
	// (choose-workspaces).
	Scratch int64
	// ScratchOf is the scratch of the operations that have a choice, in bytes
	// (choose-workspaces).
	ScratchOf map[int]int64
	// Memory says where each value lives (plan-memory).
	Memory *Memory
}

// Pass is one step of the compiler.
type Pass struct {
	Name     string // kebab-case verb
	Run      func(u *Unit) error
	Required bool   // a plan cannot be made without it
	Purpose  string // one line
}

// List is the compiler, in order.
var List = []Pass{
	{"check-shapes", checkShapes, true, "refuse what no backend executes: types, distributions, a missing loss"},
	{"choose-mode", chooseMode, true, "for prediction, take the inference form of operations and drop assignments"},
	{"find-zero-blocks", findZeroBlocks, false, "tell convolutions which blocks of their filters are zero"},
	{"add-gradients", addGradients, true, "extend the graph by the gradients of the loss with respect to all parameters"},
	{"fold-constants", foldConstants, false, "compute what depends on constants only"},
	{"merge-duplicates", mergeDuplicates, false, "compute equal expressions once"},
	{"absorb-broadcasts", absorbBroadcasts, false, "let point-by-point operations stretch their operands themselves"},
	{"fold-norms", foldNorms, false, "for prediction, make batch normalisation part of the convolution before it"},
	{"fuse", fuse, false, "make one operation of convolution, bias and ReLU"},
	{"fuse-norms", fuseNorms, false, "make one operation of batch normalisation and ReLU, and one of each sweep of their gradient"},
	{"fuse-chains", fuseChains, false, "make one operation of elementwise operations that lead to one result"},
	{"choose-layouts", chooseLayouts, false, "choose the layout of every value so that operations and changes of layout cost least"},
	{"quantise", quantise, false, "for prediction, have convolutions that have scales multiply codes of eight bits"},
	{"choose-precision", choosePrecision, false, "choose the type in which the fields inside the network are stored"},
	{"remove-dead", removeDead, true, "drop what nothing depends on"},
	{"schedule", schedule, true, "choose the order of execution that needs less memory"},
	{"recompute", recompute, false, "compute results again that the limit of the memory does not let the backward pass keep, or have them leave for the program's memory"},
	{"choose-workspaces", chooseWorkspaces, false, "cut the work of every kernel the fastest way that the limit of the scratch admits"},
	{"plan-memory", planMemory, true, "give every value its place, reusing the places of values that are no longer needed"},
}

// Order lists which passes must come before which others, and why.
var Order = []struct{ Before, After, Reason string }{
	{"check-shapes", "choose-mode", "later passes assume a legal graph"},
	{"choose-mode", "add-gradients", "gradients differ between the training and the inference form"},
	{"find-zero-blocks", "add-gradients", "the gradients of a convolution leave out what it leaves out"},
	{"find-zero-blocks", "fold-norms", "a scaled filter is no parameter any more"},
	{"add-gradients", "fold-constants", "the first gradient is a constant that folds into scale factors"},
	{"fold-constants", "merge-duplicates", "folding makes constants that are equal"},
	{"add-gradients", "merge-duplicates", "gradients repeat expressions of the forward pass"},
	{"add-gradients", "fuse", "the fused operation has no gradient"},
	{"fold-constants", "absorb-broadcasts", "small stretched constants are folded instead"},
	{"merge-duplicates", "fuse", "an intermediate result that is shared must not be fused away"},
	{"fuse", "choose-layouts", "the layouts of what is fused away do not count"},
	{"fuse", "quantise", "codes are stored behind bias and ReLU"},
	{"choose-layouts", "quantise", "kernels of codes are those of blocked fields"},
	{"quantise", "choose-precision", "codes are not stored as another type"},
	{"quantise", "remove-dead", "what works on codes leaves its likeness behind"},
	{"choose-layouts", "choose-precision", "only blocked values have kernels for other types"},
	{"choose-precision", "schedule", "sizes are those of the types"},
	{"choose-mode", "fold-norms", "stored statistics take the place of those of the batch"},
	{"merge-duplicates", "fold-norms", "an intermediate result that is shared must not be fused away"},
	{"fold-norms", "fuse", "a folded convolution takes its bias and ReLU along"},
	{"fold-norms", "remove-dead", "folding leaves the parts behind"},
	{"fuse", "fuse-norms", "a convolution takes the gradient of ReLU along at no cost"},
	{"add-gradients", "fuse-norms", "the fused operations have no gradient"},
	{"merge-duplicates", "fuse-norms", "an intermediate result that is shared must not be fused away"},
	{"fuse-norms", "choose-layouts", "the layouts of what is fused away do not count"},
	{"fuse-norms", "remove-dead", "fusing leaves the parts behind"},
	{"fuse", "fuse-chains", "a convolution takes sums and the gradient of ReLU along at no cost"},
	{"fuse-norms", "fuse-chains", "a normalisation takes ReLU and its gradient along at no cost"},
	{"add-gradients", "fuse-chains", "the fused operation has no gradient"},
	{"merge-duplicates", "fuse-chains", "an intermediate result that is shared must not be fused away"},
	{"absorb-broadcasts", "fuse-chains", "what is stretched in memory cannot be stretched by a chain"},
	{"fuse-chains", "choose-layouts", "the layouts of what is fused away do not count"},
	{"choose-layouts", "remove-dead", "an output may leave a value behind that nothing reads"},
	{"choose-layouts", "recompute", "sizes and costs are those of the layouts"},
	{"fuse", "remove-dead", "fusing leaves the parts behind"},
	{"absorb-broadcasts", "remove-dead", "absorbing leaves the broadcasts behind"},
	{"remove-dead", "schedule", "dead operations must not be run"},
	{"merge-duplicates", "recompute", "what is computed again on purpose is a duplicate"},
	{"fuse", "recompute", "costs and sizes are those of the operations that will run"},
	{"remove-dead", "recompute", "dead results would count as memory"},
	{"schedule", "recompute", "an order chosen afterwards would run what is computed again early, and keep it"},
	{"recompute", "plan-memory", "lifetimes follow from the order of execution with the repeats"},
	{"choose-layouts", "choose-workspaces", "kernels, and their scratch, are those of the layouts"},
	{"recompute", "choose-workspaces", "what is computed again is cut as well"},
	{"schedule", "choose-workspaces", "what is in the sequence will run"},
	{"choose-workspaces", "plan-memory", "arena and scratch share the limit of the memory"},
	{"schedule", "plan-memory", "lifetimes follow from the order of execution"},
}

// CheckOrder tells whether list agrees with Order and has all required passes.
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
		if p.Required && at(p.Name) < 0 {
			return fmt.Errorf("pass %s is required: %s", p.Name, p.Purpose)
		}
	}
	return nil
}

// Run runs the passes of list over u and checks the graph after each.
//
// Errors: *exit.Error; exit.Bug if a pass left an illegal graph.
func Run(list []Pass, u *Unit) error {
	if err := CheckOrder(list); err != nil {
		return &exit.Error{Code: exit.Bug, What: "the list of passes is out of order", Why: err.Error(), Fix: "report this", Err: err}
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
