package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// An activation that leaves the memory of a device for a while is written as four
// operations, so that lifetimes follow from the order of execution: what is read by
// offloaded stays until there, and what fetch makes takes its room from there on.

const offloadSource = "vDNN, Rhu et al. 2016, arXiv:1602.08124; KARMA, Wahib et al. 2020, arXiv:2008.11421"

var (
	offloadStart = Define(Spec[none]{
		Name: "offload_start", Doc: "x in the program's memory: the copy begins, and goes on beside what follows.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(1),
	})
	offloadDone = Define(Spec[none]{
		Name: "offload_done", Doc: "h, which offload made of x, at the end of the copy: from here on x may be overwritten.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(2),
	})
	fetchStart = Define(Spec[none]{
		Name: "fetch_start", Doc: "A value in the program's memory in that of the device: the copy begins, and goes on beside what follows.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(1),
	})
	fetchDone = Define(Spec[none]{
		Name: "fetch_done", Doc: "What fetch made, at the end of the copy: from here on it may be read.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, InPlace: inPlace[none](0), Cases: copyCases(1),
	})
)

const offloadNoGrad = "the pass recompute makes it after gradients have been added"

func copyRef(c Call, _ none) { copy(c.Out, c.In[0]) }

func copyCases(operands int) []Case[none] {
	c := Case[none]{Name: "5-D"}
	for range operands {
		c.In = append(c.In, Shape{2, 3, 2, 3, 5})
	}
	c.Make = func(in [][]float64) { copy(in[len(in)-1], in[0]) }
	return []Case[none]{c}
}

// The operations that move values between the memory of a device and that of the program.
var (
	OffloadStartOp, OffloadDoneOp = offloadStart.Op, offloadDone.Op
	FetchStartOp, FetchDoneOp     = fetchStart.Op, fetchDone.Op
)

// IsOnHost tells whether the result of an operation lies in the program's memory.
func IsOnHost(o *graph.Op) bool { return o == OffloadStartOp || o == OffloadDoneOp }

// IsHostCopy tells whether an operation moves a value between memories, and has no kernel.
func IsHostCopy(o *graph.Op) bool { return IsOnHost(o) || o == FetchStartOp || o == FetchDoneOp }
