//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// groups describes a value as three axes, with the axis of attrs in the middle.
func groups(x graph.Shape, a op.Groups) kern.Dims {
	inner := x[a.Axis+1:].Size()
	return kern.Dims{Outer: x.Size() / a.Size / inner, Mid: a.Size, Inner: inner}
}

// softmax prepares softmax along an axis: y = exp(x)/Σ exp(x).
//
// Missing: NaN in a group gives NaN in all of it.
func softmax(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, groups(q.Out.Shape, q.Attrs.(op.Groups))
	return kernel("softmax", func() { b.pool.Softmax(y, x, d) })
}

// softmaxGrad prepares softmax_grad: y·(dy − Σ y·dy).
//
// Source: Vaswani et al. 2017, arXiv:1706.03762; op.Softmax.
func softmaxGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	y, dy, dx, d := q.In[0].F32, q.In[1].F32, q.Out.F32, groups(q.Out.Shape, q.Attrs.(op.Groups))
	return kernel("softmax", func() { b.pool.SoftmaxGrad(dx, y, dy, d) })
}

// attention returns the sizes of attention within sets for weights w and fields like x.
// ok is false if the axes that share a weight are not adjacent; then the reference
// kernel runs.
func attention(w, x graph.Shape, a op.SetAttentionSizes) (kern.Attention, bool) {
	k := kern.Attention{Samples: w[0] / a.Queries, Queries: a.Queries, Keys: a.Keys, Heads: a.Heads, HeadChannels: x[1] / a.Heads,
		Before: 1, Cells: 1, Within: 1}
	// Axes that share a weight come before or after those that do not; axes of size 1 fit
	// anywhere.
	for i := 2; i < 5; i++ {
		switch n := x[i]; {
		case n == 1:
		case w[i] == n && k.Within == 1:
			k.Cells *= n
		case w[i] == 1 && k.Cells == 1:
			k.Before *= n
		case w[i] == 1:
			k.Within *= n
		default:
			return k, false
		}
	}
	// With a single weight for all grid points these are summed together.
	if k.Cells == 1 {
		k.Before, k.Within = 1, k.Before
	}
	return k, true
}

// setDot prepares set_dot, scores of queries against keys (kern.Pool.SetDot). Weights
// that are shared along axes which are not adjacent run the reference kernel.
func setDot(b *Backend, r backend.Request) (backend.Kernel, error) {
	q, k, w := r.In[0].F32, r.In[1].F32, r.Out.F32
	a, ok := attention(r.Out.Shape, r.In[0].Shape, r.Attrs.(op.SetAttentionSizes))
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_dot", func() { b.pool.SetDot(w, q, k, a) })
}

// setMix prepares set_mix: sums of values, weighted by attention (kern.Pool.SetMix).
func setMix(b *Backend, r backend.Request) (backend.Kernel, error) {
	w, x, y, sizes := r.In[0].F32, r.In[1].F32, r.Out.F32, r.Attrs.(op.SetAttentionSizes)
	a, ok := attention(r.In[0].Shape, r.In[1].Shape, sizes)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_mix", func() { b.pool.SetMix(y, w, x, a, sizes.Transposed) })
}
