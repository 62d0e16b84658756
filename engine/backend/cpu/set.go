//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// setReductions names the kernel of each way to pool sets.
var setReductions = map[op.SetReduction]kern.SetReduction{
	op.ReduceSum: kern.SetSum, op.ReduceMean: kern.SetMean, op.ReduceStd: kern.SetStd, op.ReduceMin: kern.SetMin, op.ReduceMax: kern.SetMax,
}

// sets sees a value [N·size C …] as samples, rows and the rest; false if sets are too large for the kernels.
func sets(x graph.Shape, size int) (kern.Dims, bool) {
	return kern.Dims{Outer: x[0] / size, Mid: size, Inner: x[1:].Size()}, size <= kern.MaxSet
}

// setPool serves set_pool.
func setPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	x, y := q.In[0].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_pool", func() { b.pool.SetPool(setReductions[a.Kind], y, x, d) })
}

// setPoolGrad serves set_std_grad and set_extreme_grad.
func setPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	x, y, dy, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_pool_grad", func() { b.pool.SetPoolGrad(setReductions[a.Kind], dx, x, y, dy, d) })
}

// setRepeat serves set_repeat.
func setRepeat(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].F32, q.Out.F32
	d, _ := sets(q.Out.Shape, q.Attrs.(op.Set).Size)
	return kernel("copy_rows", func() {
		for m := range d.Mid {
			b.pool.CopyRows(y[m*d.Inner:], d.Mid*d.Inner, x, d.Inner, d.Outer, d.Inner)
		}
	})
}

// setSwap serves set_swap.
func setSwap(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, s, size := q.In[0].F32, q.Out.F32, q.In[0].Shape, q.Attrs.(op.Swap).Size
	copies := func(y0, yStep, from, fromStep, n, run int) {
		b.pool.CopyRows(y[y0:], yStep, x[from:], fromStep, n, run)
	}
	return kernel("copy_rows", func() { op.EachSwap(s, size, copies) })
}

// setTranspose serves set_transpose.
func setTranspose(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, s, a := q.In[0].F32, q.Out.F32, q.In[0].Shape, q.Attrs.(op.Grid)
	copies := func(y0, yStep, from, fromStep, n, run int) {
		b.pool.CopyRows(y[y0:], yStep, x[from:], fromStep, n, run)
	}
	return kernel("copy_rows", func() { op.EachTransposed(s, a, copies) })
}

// setCRPS serves set_crps.
func setCRPS(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	x, y, score := q.In[0].F32, q.In[1].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_crps", func() { b.pool.SetCRPS(score, x, y, d, a.Groups, a.PairWeight()) })
}

// setCRPSGrad serves set_crps_grad.
func setCRPSGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	x, y, dy, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_crps", func() { b.pool.SetCRPSGrad(dx, x, y, dy, d, a.Groups, a.PairWeight()) })
}
