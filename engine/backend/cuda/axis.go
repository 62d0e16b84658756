package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// maxHeadChannels is the largest number of channels of a head that kernels hold in registers.
const maxHeadChannels = 128

// axisQueries is the number of queries that a thread adds up for the weights of offsets.
const axisQueries = 8

// axisAttention serves attention along an axis and its gradients; the reference kernel those with larger heads.
func axisAttention(kernel func(x axis, b *Backend) (backend.Kernel, error)) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return axisKernel(b, q, kernel) }
}

func axisKernel(b *Backend, q backend.Request, kernel func(x axis, b *Backend) (backend.Kernel, error)) (backend.Kernel, error) {
	a, s := q.Attrs.(op.AxisAttention), q.In[0].Shape
	l, per := a.Lines(s), s[1]/3/a.Heads
	if per > maxHeadChannels {
		return backend.Kernel{}, nil
	}
	size := 4
	for size < per {
		size *= 2
	}
	windows := make([]int32, 2*l.Length) // of each element the first of its window and the length
	for _, w := range a.Windows(l.Length) {
		for j := range w[1] {
			e := (w[0] + j) % l.Length
			windows[2*e], windows[2*e+1] = int32(w[0]), int32(w[1])
		}
	}
	p, release, err := b.table(windows)
	if err != nil {
		return backend.Kernel{}, err
	}
	reach := q.In[1].Shape[1] / 2
	x := axis{q: q, p: kernels.Program("axis.cu", define("PER", size)), n: int64(l.Blocks) * int64(l.Width) * int64(l.Length), heads: a.Heads, offsets: 2*reach + 1}
	x.lines = append(int32s(l.PerRow, l.RowStride, l.PointStride, l.Width, l.LineStride, l.ElemRows, l.ElemPoints, l.Length, s[1]/3, per, s[2:].Size(), reach), p)
	k, err := kernel(x, b)
	if err != nil {
		release()
		return k, err
	}
	k.Close = release
	return k, nil
}

// axis are calls of kernels over n elements of each head; lines are the arguments that end them.
type axis struct {
	q              backend.Request
	p              device.Program
	n              int64
	heads, offsets int
	lines          []any
}

// call adds a call over all elements.
func (x axis) call(w *work, name string, args ...any) {
	size := gridFor(x.n)
	size.Grid[1] = x.heads
	w.call(x.p, name, size, append(append(args, x.n), x.lines...)...)
}

// result is the kernel of the attention itself.
func (x axis) result(b *Backend) (backend.Kernel, error) {
	w := &work{b: b}
	x.call(w, "axis_attention", addresses(x.q)...)
	return w.kernel("axis_attention")
}

// statistics are two numbers of all queries, which gradients need, in scratch.
func (x axis) statistics() int { return 2 * x.heads * int(x.n) }

// grad is the kernel of the gradient by queries, keys and values.
func (x axis) grad(b *Backend) (backend.Kernel, error) {
	in, offsets, dy, out := at(x.q.In[0]), at(x.q.In[1]), at(x.q.In[2]), at(x.q.Out)
	return b.withScratch("axis_attention_grad", x.statistics(), func(w *work, scratch []float32) {
		x.call(w, "axis_queries", in, offsets, dy, out, start(scratch))
		x.call(w, "axis_keys", in, offsets, dy, start(scratch), out)
	})
}

// gradBias is the kernel of the gradient by the weights of offsets.
func (x axis) gradBias(b *Backend) (backend.Kernel, error) {
	in, offsets, dy, out, stats := at(x.q.In[0]), at(x.q.In[1]), at(x.q.In[2]), at(x.q.Out), x.statistics()
	each := max(threads*axisQueries, (x.n+maxParts-1)/maxParts)
	parts, results := int((x.n+each-1)/each), x.heads*x.offsets
	join := reduction{kept: []boxAxis{{results, 1, 1}}, summed: []boxAxis{{parts, results, results}}, innerKept: true}
	return b.withScratch("axis_attention_grad_bias", stats+parts*results, func(w *work, scratch []float32) {
		x.call(w, "axis_queries", in, offsets, dy, device.Pointer(nil), start(scratch))
		sums := start(scratch[stats:])
		w.call(x.p, "axis_offsets", device.Size{Grid: [3]int{parts, x.heads}, Block: [3]int{threads}},
			append([]any{in, offsets, dy, start(scratch), sums, x.n, each}, x.lines...)...)
		w.sumBox("float", sums, out, join, int64(parts))
	})
}
