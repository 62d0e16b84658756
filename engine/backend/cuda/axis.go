package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// maxHeadChannels is the largest number of channels of a head that kernels hold in
// registers.
const maxHeadChannels = 128

// axisQueries is the number of queries that a thread sums for the gradient of the
// relative position bias.
const axisQueries = 8

// axisAttention returns the rule of attention along an axis or one of its gradients.
// Larger heads run the reference kernel.
func axisAttention(kernel func(x axis, b *Backend) (backend.Kernel, error)) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return axisKernel(b, q, kernel) }
}

// axisKernel prepares the arguments of the kernels of axis.cu, among them a table of
// the windows on the device.
func axisKernel(b *Backend, q backend.Request, kernel func(x axis, b *Backend) (backend.Kernel, error)) (backend.Kernel, error) {
	a, s := q.Attrs.(op.AxisAttention), q.In[0].Shape
	l, per := a.Lines(s), s[1]/3/a.Heads
	if per > maxHeadChannels {
		return backend.Kernel{}, nil
	}
	// The number of channels of a head is a constant of the program, rounded up to a power
	// of two, so that arrays stay in registers.
	size := 4
	for size < per {
		size *= 2
	}
	// For each element of a line: the first element of its window, and the window's length.
	windows := make([]int32, 2*l.Length)
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

// axis holds the arguments of the kernels of attention along an axis: n elements of
// each head, and the arguments lines at the end of all kernels.
//
//	y_i = Σ_j softmax_j(q_i·k_j/√d + b[j−i])·v_j,  j in the window of i
//
// Scores are recomputed in the gradients instead of being stored.
//
// Source: Dao et al. 2022, arXiv:2205.14135, for attention without a matrix of scores.
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

// result prepares the attention itself.
func (x axis) result(b *Backend) (backend.Kernel, error) {
	w := &work{b: b}
	x.call(w, "axis_attention", addresses(x.q)...)
	return w.kernel("axis_attention")
}

// statistics returns the scratch for two numbers of each query that the gradients need:
// the normalisation of its softmax, and Σ y·dy.
func (x axis) statistics() int { return 2 * x.heads * int(x.n) }

// grad prepares the gradient with respect to queries, keys and values.
func (x axis) grad(b *Backend) (backend.Kernel, error) {
	in, offsets, dy, out := at(x.q.In[0]), at(x.q.In[1]), at(x.q.In[2]), at(x.q.Out)
	return b.withScratch("axis_attention_grad", x.statistics(), func(w *work, scratch []float32) {
		x.call(w, "axis_queries", in, offsets, dy, out, start(scratch))
		x.call(w, "axis_keys", in, offsets, dy, start(scratch), out)
	})
}

// gradBias prepares the gradient with respect to the relative position bias: sums over
// parts of the queries, and their sum.
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
