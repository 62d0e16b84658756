package op

import "github.com/ensemble-weather/ensemble/engine/graph"

// Four operations offload an activation to host memory and fetch it back. The
// start and the end of each copy are separate, so that lifetimes follow from the
// order of execution: the source stays allocated until its copy has ended, and
// the destination is allocated where its copy starts.

// offloadSource is the source of the operations in this file.
const offloadSource = "vDNN, Rhu et al. 2016, arXiv:1602.08124; KARMA, Wahib et al. 2020, arXiv:2008.11421"

// The operations are identities. A device runs the copies on engines of their
// own, concurrently with kernels.
var (
	offloadStart = Define(Spec[none]{
		Name: "offload_start", Doc: "Starts a copy of x to host memory, which runs concurrently with later kernels.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(1),
	})
	offloadDone = Define(Spec[none]{
		Name: "offload_done", Doc: "Waits for the end of the copy of x to host memory; afterwards x may be overwritten.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(2),
	})
	fetchStart = Define(Spec[none]{
		Name: "fetch_start", Doc: "Starts a copy from host memory to the device, which runs concurrently with later kernels.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, Cases: copyCases(1),
	})
	fetchDone = Define(Spec[none]{
		Name: "fetch_done", Doc: "Waits for the end of the copy to the device; afterwards the result may be read.", Source: offloadSource,
		NoGrad: offloadNoGrad, Shape: shapeOfOperand[none](0), FLOPs: zeroFLOPs[none], Ref: copyRef, InPlace: inPlace[none](0), Cases: copyCases(1),
	})
)

// offloadNoGrad is the reason why they have no gradient.
const offloadNoGrad = "inserted by the pass recompute after gradients were added"

// copyRef is the reference kernel: a copy.
func copyRef(c Call, _ none) { copy(c.Out, c.In[0]) }

// copyCases is a case whose first and last operands are equal.
func copyCases(operands int) []Case[none] {
	c := Case[none]{Name: "5-D"}
	for range operands {
		c.In = append(c.In, Shape{2, 3, 2, 3, 5})
	}
	c.Make = func(in [][]float64) { copy(in[len(in)-1], in[0]) }
	return []Case[none]{c}
}

// The operations that copy values between device memory and host memory.
var (
	OffloadStartOp, OffloadDoneOp = offloadStart.Op, offloadDone.Op
	FetchStartOp, FetchDoneOp     = fetchStart.Op, fetchDone.Op
)

// IsOnHost reports whether the result of an operation lies in host memory.
func IsOnHost(o *graph.Op) bool { return o == OffloadStartOp || o == OffloadDoneOp }

// IsHostCopy reports whether an operation copies between device and host
// memory. Backends have no kernels for these operations; the plan runs the
// copies.
func IsHostCopy(o *graph.Op) bool { return IsOnHost(o) || o == FetchStartOp || o == FetchDoneOp }
