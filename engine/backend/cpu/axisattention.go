//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// axisAttention returns the rule of attention along an axis or one of its gradients.
// Heads and windows beyond the kernels' limits run the reference kernel.
func axisAttention(part kern.AxisPart) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) { return axisAttentionKernel(b, q, part) }
}

// axisAttentionKernel prepares one part of attention along an axis (kern.Pool.Axis).
//
// Source: Ho et al. 2019, arXiv:1912.12180; op.AttendAxis.
func axisAttentionKernel(b *Backend, q backend.Request, part kern.AxisPart) (backend.Kernel, error) {
	a, in := q.Attrs.(op.AxisAttention), q.In[0].Shape
	s := a.Lines(in)
	k := kern.Axis{Blocks: s.Blocks, PerRow: s.PerRow, RowStride: s.RowStride, PointStride: s.PointStride, Width: s.Width, LineStride: s.LineStride,
		ElemRows: s.ElemRows, ElemPoints: s.ElemPoints, Length: s.Length, Channels: in[1] / 3, Plane: in[2:].Size(), Heads: a.Heads, Reach: q.In[1].Shape[1] / 2}
	fits := k.Channels/k.Heads <= kern.MaxAxisHead && len(a.Starts) <= kern.MaxAxisWindow && k.Reach <= kern.MaxAxisWindow
	for _, w := range a.Windows(s.Length) {
		k.Windows = append(k.Windows, w[0], w[1])
		fits = fits && w[1] <= kern.MaxAxisWindow
	}
	if !fits {
		return backend.Kernel{}, nil
	}
	x, offsets, y := q.In[0].F32, q.In[1].F32, q.Out.F32
	var dy []float32
	if part != kern.AxisResult {
		dy = q.In[2].F32
	}
	b.needScratch(k.ScratchLen(part, b.pool.Threads()))
	return kernel("axis_attention", func() { b.pool.Axis(part, y, x, offsets, dy, b.scratch, k) })
}
