package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// setDotProgram holds the kernels of attention within sets.
var setDotProgram = kernels.Program("setdot.cu")

// Sizes of set_dot.
const (
	dotBlocks = 128 // number of summed values from which on a block, not a thread, computes a score
	dotEach   = 64  // values that a thread of a block sums
	dotTile   = 8   // keys of a block
)

// attentionSizes returns the arguments at the end of the kernels of attention within
// sets.
func attentionSizes(a op.SetAttentionSizes, x, w graph.Shape) []any {
	return int32s(a.Queries, a.Keys, a.Heads, x[1]/a.Heads, x[2], x[3], x[4], w[2], w[3], w[4])
}

// setDot prepares set_dot, scores of queries against keys in each set:
//
//	w[n,j,h,i,cell] = Σ q[n,j]·k[n,i] over the channels of head h and the grid points of the cell
//
// Short sums have one thread each. Long sums are computed by blocks, dotTile keys at a
// time, and divided into parts that are added in a fixed order.
//
// Source: Finn 2021, arXiv:2106.13924.
func setDot(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, x, y := q.Attrs.(op.SetAttentionSizes), q.In[0].Shape, q.Out.Shape
	sizes, results := attentionSizes(a, x, y), y.Size()
	// The length of the longest sum: channels of a head times grid points of a cell.
	sum := x[1] / a.Heads
	for i := 2; i < 5; i++ {
		sum *= (x[i] + y[i] - 1) / y[i]
	}
	if sum < dotBlocks {
		w := &work{b: b}
		w.call(setDotProgram, "dot_threads", gridFor(int64(results)), append(append(addresses(q), int64(results)), sizes...)...)
		return w.kernel("set_dot")
	}
	each := max(threads*dotEach, (sum+maxParts-1)/maxParts)
	parts := (sum + each - 1) / each
	blocks := device.Size{Grid: [3]int{y[0] * a.Heads * ((a.Keys + dotTile - 1) / dotTile) * y[2:].Size(), parts}, Block: [3]int{threads}}
	join := reduction{kept: []boxAxis{{results, 1, 1}}, summed: []boxAxis{{parts, results, results}}, innerKept: true}
	return b.withScratch("set_dot", results*parts, func(w *work, scratch []float32) {
		args := []any{at(q.In[0]), at(q.In[1]), start(scratch), int64(results), int64(each)}
		w.call(setDotProgram, "dot_blocks", blocks, append(args, sizes...)...)
		w.sumBox("float", start(scratch), at(q.Out), join, int64(parts))
	})
}

// setMix prepares set_mix, sums of values weighted by attention:
//
//	y[n,j] = Σᵢ w[n,j,h,i,cell]·x[n,i],  transposed: y[n,i] = Σⱼ w[n,j,h,i,cell]·x[n,j]
func setMix(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, transposed := q.Attrs.(op.SetAttentionSizes), int32(0)
	if a.Transposed {
		transposed = 1
	}
	n := int64(q.Out.Shape.Size())
	w := &work{b: b}
	w.call(setDotProgram, "set_mix", gridFor(n), append(append(addresses(q), n, transposed), attentionSizes(a, q.Out.Shape, q.In[0].Shape)...)...)
	return w.kernel("set_mix")
}
