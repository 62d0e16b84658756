package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// mostHead is the largest number of channels of a head that kernels hold in registers.
const mostHead = 128

// axisQueries is the number of queries that a thread adds up for the weights of offsets.
const axisQueries = 8

// axisAttention serves attention along an axis and its gradients; the reference kernel those with larger heads.
func axisAttention(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.AxisAttention), q.In[0].Shape
	l, per := a.Lines(s), s[1]/3/a.Heads
	if per > mostHead {
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
	x.lines = append(int32s(l.PerRow, l.RowStep, l.PointStep, l.Width, l.Beside, l.AlongRows, l.AlongPoints, l.Length, s[1]/3, per, s[2:].Size(), reach), p)
	k, err := x.kernel(b)
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
	size := over(x.n)
	size.Grid[1] = x.heads
	w.call(x.p, name, size, append(append(args, x.n), x.lines...)...)
}

// kernel is that of the operation. Gradients need of all queries two numbers, in scratch.
func (x axis) kernel(b *Backend) (backend.Kernel, error) {
	q, name := x.q, x.q.Op.Name
	if name == "axis_attention" {
		w := &work{b: b}
		x.call(w, name, addresses(q)...)
		return w.kernel(name)
	}
	in, offsets, dy, out := at(q.In[0]), at(q.In[1]), at(q.In[2]), at(q.Out)
	stats := 2 * x.heads * int(x.n)
	if name == "axis_attention_grad" {
		return b.placed(name, stats, func(w *work, scratch []float32) {
			x.call(w, "axis_queries", in, offsets, dy, out, start(scratch))
			x.call(w, "axis_keys", in, offsets, dy, start(scratch), out)
		})
	}
	each := max(threads*axisQueries, (x.n+mostSums-1)/mostSums)
	parts, results := int((x.n+each-1)/each), x.heads*x.offsets
	join := reduction{kept: []stretch{{results, 1, 1}}, summed: []stretch{{parts, results, results}}, innerKept: true}
	return b.placed(name, stats+parts*results, func(w *work, scratch []float32) {
		x.call(w, "axis_queries", in, offsets, dy, device.Pointer(nil), start(scratch))
		sums := start(scratch[stats:])
		w.call(x.p, "axis_offsets", device.Size{Grid: [3]int{parts, x.heads}, Block: [3]int{threads}},
			append([]any{in, offsets, dy, start(scratch), sums, x.n, each}, x.lines...)...)
		w.sumBox("float", sums, out, join, int64(parts))
	})
}
