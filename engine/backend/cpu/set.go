//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// setReductions maps reductions of package op to those of package kern.
var setReductions = map[op.SetReduction]kern.SetReduction{
	op.ReduceSum: kern.SetSum, op.ReduceMean: kern.SetMean, op.ReduceStd: kern.SetStd, op.ReduceMin: kern.SetMin, op.ReduceMax: kern.SetMax,
}

// sets describes a value [N·size C …] as three axes: sample, member of the set, and the
// rest. ok is false if the set is too large for the kernels.
func sets(x graph.Shape, size int) (kern.Dims, bool) {
	return kern.Dims{Outer: x[0] / size, Mid: size, Inner: x[1:].Size()}, size <= kern.MaxSet
}

// setPool prepares set_pool: a reduction over the members of each set.
//
// Shape: x [N·size C …] → y [N C …].
// Source: Zaheer et al. 2017, arXiv:1703.06114.
func setPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	x, y := q.In[0].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_pool", func() { b.pool.SetPool(setReductions[a.Kind], y, x, d) })
}

// setPoolGrad prepares set_std_grad and set_extreme_grad (kern.Pool.SetPoolGrad).
func setPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Set)
	x, y, dy, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_pool_grad", func() { b.pool.SetPoolGrad(setReductions[a.Kind], dx, x, y, dy, d) })
}

// setRepeat prepares set_repeat: x repeated for every member of a set.
//
// Shape: x [N C …] → y [N·size C …].
func setRepeat(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].F32, q.Out.F32
	d, _ := sets(q.Out.Shape, q.Attrs.(op.Set).Size)
	return kernel("copy_rows", func() {
		for m := range d.Mid {
			b.pool.CopyRows(y[m*d.Inner:], d.Mid*d.Inner, x, d.Inner, d.Outer, d.Inner)
		}
	})
}

// setSwap prepares set_swap: the axis of members and the level axis exchange their
// places.
func setSwap(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, s, size := q.In[0].F32, q.Out.F32, q.In[0].Shape, q.Attrs.(op.Swap).Size
	copies := func(y0, yStep, from, fromStep, n, run int) {
		b.pool.CopyRows(y[y0:], yStep, x[from:], fromStep, n, run)
	}
	return kernel("copy_rows", func() { op.EachSwap(s, size, copies) })
}

// setTranspose prepares set_transpose: the members of a set, a grid of rows × columns,
// are stored by columns.
func setTranspose(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, s, a := q.In[0].F32, q.Out.F32, q.In[0].Shape, q.Attrs.(op.Grid)
	copies := func(y0, yStep, from, fromStep, n, run int) {
		b.pool.CopyRows(y[y0:], yStep, x[from:], fromStep, n, run)
	}
	return kernel("copy_rows", func() { op.EachTransposed(s, a, copies) })
}

// setCRPS prepares set_crps: the CRPS of an ensemble against the observation, at every
// point (kern.Pool.SetCRPS).
//
// Shape: x [N·size C …], y [N C …] → [N C …].
func setCRPS(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	x, y, score := q.In[0].F32, q.In[1].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_crps", func() { b.pool.SetCRPS(score, x, y, d, a.Groups, a.PairWeight()) })
}

// setCRPSGrad prepares set_crps_grad: the gradient of set_crps with respect to the
// members.
func setCRPSGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.SetScore)
	x, y, dy, dx := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	d, ok := sets(q.In[0].Shape, a.Size)
	if !ok {
		return backend.Kernel{}, nil
	}
	return kernel("set_crps", func() { b.pool.SetCRPSGrad(dx, x, y, dy, d, a.Groups, a.PairWeight()) })
}
