//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// points describes a field for normalisation over the channels of each grid point. ok
// is false if it has more channels than the kernels support.
func points(x graph.Shape, a op.Eps) (kern.PointNorm, bool) {
	return kern.PointNorm{Rows: x[0], Channels: x[1], Points: x[2:].Size(), Eps: a.Eps}, x[1] <= kern.MaxPointChannels
}

// pointNorm prepares point_norm (kern.Pool.PointNorm), layer normalisation over
// channels.
//
// Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
func pointNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	x, gamma, beta, y := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNorm(y, x, gamma, beta, n) })
}

// pointNormGrad prepares point_norm_grad, the gradient with respect to x.
func pointNormGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	x, dy, gamma, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNormGrad(dx, x, dy, gamma, n) })
}

// pointNormSums prepares point_norm_sums, the gradients of beta and gamma.
func pointNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	n, ok := points(q.In[0].Shape, q.Attrs.(op.Eps))
	if !ok {
		return backend.Kernel{}, nil
	}
	b.needScratch(n.ScratchLen())
	x, dy, sums := q.In[0].F32, q.In[1].F32, q.Out.F32
	return kernel("point_norm", func() { b.pool.PointNormSums(sums, x, dy, b.scratch, n) })
}
