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
// channels of each grid point:
//
//	y = (x − mean)·r·gamma + beta,  r = (variance + eps)^−½
//
// Shape: x, y [N C D H W]; gamma, beta [C]; one thread per grid point.
// Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
func pointNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	args := addresses(q)
	n, more := pointArgs(q.Out.Shape, q.Attrs.(op.Eps).Eps)
	w := &work{b: b}
	w.call(pointsProgram, q.Op.Name, gridFor(n), append(args, more...)...)
	return w.kernel(q.Op.Name)
}

// pointNormSums prepares point_norm_sums, the gradients of beta and gamma: Σ dy and Σ
// dy·x̂ over samples and grid points.
//
// It first computes mean and r of each grid point in scratch, then sums over parts of
// the grid points, and adds these in a fixed order.
//
// Shape: x, dy [N C D H W] → [2 C].
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

// softmax prepares softmax and softmax_grad along an axis, one thread per group:
//
//	y = exp(x − max)/Σ exp(x − max),  dx = y·(dy − Σ y·dy)
//
// The maximum is subtracted so that exp does not overflow.
func softmax(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Groups), q.Out.Shape
	args := addresses(q)
	n, step := int64(s.Size()/a.Size), int64(s[a.Axis+1:].Size())
	w := &work{b: b}
	w.call(softmaxProgram, q.Op.Name, gridFor(n), append(args, n, step, int32(a.Size))...)
	return w.kernel(q.Op.Name)
}
