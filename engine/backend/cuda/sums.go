package cuda

import (
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// reduction describes a sum for the kernel sum_box: axes that are kept, with strides in
// operand and result, and axes that are summed.
type reduction struct {
	kept, summed []boxAxis
	innerKept    bool // the innermost axis in memory is kept
}

// reductionOf returns the reduction of a value over axes.
func reductionOf(x backend.Tensor, a op.Axes) reduction {
	var r reduction
	out := x.Shape.Clone()
	summed := make([]bool, len(out))
	for i := range out {
		if summed[i] = !a.Keep || slices.Contains(a.Axes, i); summed[i] {
			out[i] = 1
		}
	}
	// Axes are listed in memory order, so that adjacent ones can be merged.
	strides := x.Shape.Strides()
	order := make([]int, len(strides))
	for i := range order {
		order[i] = i
	}
	if x.Layout == graph.ChannelsLast {
		s, _ := storageAxes(x, 0)
		for axis := range strides {
			_, k := storageAxes(x, axis)
			strides[axis], order[k] = s.Strides()[k], axis
		}
	}
	for _, i := range order {
		d := boxAxis{x.Shape[i], strides[i], out.Strides()[i]}
		switch {
		case d.n == 1:
		case summed[i]:
			d.y = d.x
			r.summed, r.innerKept = append(r.summed, d), false
		default:
			r.kept, r.innerKept = append(r.kept, d), true
		}
	}
	r.kept, r.summed = mergeAxes(r.kept), mergeAxes(r.summed)
	return r
}

// count returns the number of elements of some axes.
func count(axes []boxAxis) int64 {
	n := int64(1)
	for _, a := range axes {
		n *= int64(a.n)
	}
	return n
}

// Limits of a sum: values that a thread adds in one call, and parts of a result.
const (
	sumEach  = 64
	maxParts = 1 << 11
)

// size returns the results and values that a block processes, and the number of values
// of a part.
func (r reduction) size() (block [3]int, each int64) {
	// block[0] results are computed side by side, each by block[1] threads. Threads with
	// adjacent numbers read adjacent memory: results if the innermost axis is kept, else
	// values of one sum.
	kept, n := count(r.kept), count(r.summed)
	switch {
	case r.innerKept && n < 32:
		block = [3]int{threads, 1}
	case r.innerKept:
		block[0] = 32
		for int64(block[0]/2) >= kept {
			block[0] /= 2
		}
		block[1] = threads / block[0]
	case n < 128:
		block = [3]int{threads / 4, 4}
	default:
		block = [3]int{1, threads}
	}
	each = int64(block[1]) * sumEach
	return block, max(each, (n+maxParts-1)/maxParts)
}

// axes returns the arguments of four axes: all sizes but the first, and strides.
func axes(a []boxAxis) (sizes, x, y []any) {
	a = a[:len(a):len(a)]
	for len(a) < 4 { // the kernel derives the size of the first axis from n
		a = append(a, boxAxis{1, 0, 0})
	}
	for k, d := range a {
		if k > 0 {
			sizes = append(sizes, int32(d.n))
		}
		x, y = append(x, int64(d.x)), append(y, int64(d.y))
	}
	return sizes, x, y
}

// sumBox adds a call of sum_box with parts of each values.
func (w *work) sumBox(t string, x, y device.Pointer, r reduction, each int64) {
	block, _ := r.size()
	kept, n := count(r.kept), count(r.summed)
	size := device.Size{Grid: [3]int{int((kept + int64(block[0]) - 1) / int64(block[0])), int((n + each - 1) / each)}, Block: block}
	k, a, b := axes(r.kept)
	s, along, _ := axes(r.summed)
	args := append([]any{x, y, kept}, k...)
	args = append(append(append(args, a...), b...), n)
	w.call(kernels.Program("sums.cu", define("T", t)), "sum_box", size, append(append(append(args, s...), along...), each)...)
}

// sum prepares sum over a set of axes: in one call, or one for parts of long sums and
// one that adds these in a fixed order. Sums are float32; the limited number of values
// of a thread keeps them accurate.
func sum(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, r := q.In[0], reductionOf(q.In[0], q.Attrs.(op.Axes))
	_, each := r.size()
	kept, parts := count(r.kept), (count(r.summed)+each-1)/each
	if parts == 1 {
		w := &work{b: b}
		w.sumBox(stored(x), at(x), at(q.Out), r, each)
		return w.kernel("sum")
	}
	join := reduction{kept: []boxAxis{{int(kept), 1, 1}}, summed: []boxAxis{{int(parts), int(kept), int(kept)}}, innerKept: true}
	return b.withScratch("sum", int(kept*parts), func(w *work, scratch []float32) {
		w.sumBox(stored(x), at(x), start(scratch), r, each)
		w.sumBox("float", start(scratch), at(q.Out), join, parts)
	})
}
