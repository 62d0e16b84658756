package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// An activation that leaves the memory of a device for a while is written as four
// operations, so that lifetimes follow from the order of execution: what is read by
// offloaded stays until there, and what fetch makes takes its room from there on.

const offloads = "vDNN, Rhu et al. 2016, arXiv:1602.08124; KARMA, Wahib et al. 2020, arXiv:2008.11421"

var (
	offload = Define(Spec[none]{
		Name: "offload", Doc: "x in the program's memory: the copy begins, and goes on beside what follows.", Source: offloads,
		NoGrad: offloadLate, Shape: same[none](0), FLOPs: moves[none], Ref: copied, Cases: oneCopy(1),
	})
	offloaded = Define(Spec[none]{
		Name: "offloaded", Doc: "h, which offload made of x, at the end of the copy: from here on x may be overwritten.", Source: offloads,
		NoGrad: offloadLate, Shape: same[none](0), FLOPs: moves[none], Ref: copied, Cases: oneCopy(2),
	})
	fetch = Define(Spec[none]{
		Name: "fetch", Doc: "A value in the program's memory in that of the device: the copy begins, and goes on beside what follows.", Source: offloads,
		NoGrad: offloadLate, Shape: same[none](0), FLOPs: moves[none], Ref: copied, Cases: oneCopy(1),
	})
	fetched = Define(Spec[none]{
		Name: "fetched", Doc: "What fetch made, at the end of the copy: from here on it may be read.", Source: offloads,
		NoGrad: offloadLate, Shape: same[none](0), FLOPs: moves[none], Ref: copied, InPlace: inPlace[none](0), Cases: oneCopy(1),
	})
)

const offloadLate = "the pass recompute makes it after gradients have been added"

func copied(c Call, _ none) { copy(c.Out, c.In[0]) }

func oneCopy(operands int) []Case[none] {
	c := Case[none]{Name: "5-D"}
	for range operands {
		c.In = append(c.In, Shape{2, 3, 2, 3, 5})
	}
	c.Make = func(in [][]float64) { copy(in[len(in)-1], in[0]) }
	return []Case[none]{c}
}

// The operations that move values between the memory of a device and that of the program.
var (
	OffloadOp, OffloadedOp = offload.Op, offloaded.Op
	FetchOp, FetchedOp     = fetch.Op, fetched.Op
)

// OnHost tells whether the result of an operation lies in the program's memory.
func OnHost(o *graph.Op) bool { return o == OffloadOp || o == OffloadedOp }

// IsOffload tells whether an operation moves a value between memories, and has no kernel.
func IsOffload(o *graph.Op) bool { return OnHost(o) || o == FetchOp || o == FetchedOp }
