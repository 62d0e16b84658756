//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// points sees a field as points with channels; false if these are too many for the kernels.
func points(x graph.Shape, a op.Eps) (kern.PointNorm, bool) {
	return kern.PointNorm{Rows: x[0], Channels: x[1], Points: x[2:].Size(), Eps: a.Eps}, x[1] <= kern.MaxPointChannels
}

// pointNorm serves point_norm.
func pointNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	x, gamma, beta, y := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNorm(y, x, gamma, beta, n) })
}

// pointNormGrad serves point_norm_grad.
func pointNormGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	x, dy, gamma, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNormGrad(dx, x, dy, gamma, n) })
}

// pointNormSums serves point_norm_sums.
func pointNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	b.needScratch(n.ScratchLen())
	x, dy, sums := q.In[0].F32, q.In[1].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNormSums(sums, x, dy, b.scratch, n) })
}
