package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// Programs with one thread per grid point or group.
var pointsProgram, softmaxProgram = kernels.Program("points.cu", define("T", "float")), kernels.Program("softmax.cu")

// pointArgs returns the number of grid points of a plain field, and the arguments of
// the kernels of points.cu.
func pointArgs(s graph.Shape, eps float64) (n int64, args []any) {
	p := int64(s[2:].Size())
	n = int64(s[0]) * p
	return n, []any{n, int32(s[1]), p, float32(eps)}
}

// pointNorm prepares point_norm and point_norm_grad, layer normalisation over the
// channels of each grid point.
func pointNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	args := addresses(q)
	n, more := pointArgs(q.Out.Shape, q.Attrs.(op.Eps).Eps)
	w := &work{b: b}
	w.call(pointsProgram, q.Op.Name, gridFor(n), append(args, more...)...)
	return w.kernel(q.Op.Name)
}

// pointNormSums prepares point_norm_sums: first the moments of each grid point in
// scratch, then sums per channel.
func pointNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	x := q.In[0]
	n, args := pointArgs(x.Shape, q.Attrs.(op.Eps).Eps)
	walk := newWalk(x, sumTurns)
	parts := walk.channels * walk.parts * sumsPerPart
	return b.withScratch("point_norm_sums", parts+2*int(n), func(w *work, scratch []float32) {
		stats, count := start(scratch[parts:]), int32(walk.parts)
		w.call(pointsProgram, "point_stats", gridFor(n), append([]any{at(x), stats}, args...)...)
		w.call(pointsProgram, "point_parts", walk.size, append(append([]any{at(x), at(q.In[1]), stats, start(scratch)}, walk.args()...), count, n)...)
		w.call(channels(x), "channel_join", walk.join(), start(scratch), at(q.Out), count, int32(walk.channels))
	})
}

// softmax prepares softmax and softmax_grad, one thread per group.
func softmax(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Groups), q.Out.Shape
	args := addresses(q)
	n, step := int64(s.Size()/a.Size), int64(s[a.Axis+1:].Size())
	w := &work{b: b}
	w.call(softmaxProgram, q.Op.Name, gridFor(n), append(args, n, step, int32(a.Size))...)
	return w.kernel(q.Op.Name)
}
