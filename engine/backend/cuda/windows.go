package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// sides returns the last three sizes of a shape as arguments.
func sides(s graph.Shape) []any { return int32s(s[2:]...) }

// int32s returns integers as arguments of a kernel.
func int32s(n ...int) (args []any) {
	for _, i := range n {
		args = append(args, int32(i))
	}
	return args
}

// overRows returns a kernel of one call in which each block computes one row of a field
// of shape of, for the samples and channels of the result:
//
//	kernel(operands…, result, channels, more…)
//
// Rows along longitude are contiguous in both layouts, so that threads of a warp access
// adjacent memory.
func (b *Backend) overRows(q backend.Request, name string, of graph.Shape, more ...any) (backend.Kernel, error) {
	rows, row, channels := q.Out.Shape[0]*of[2]*of[3], of[4], q.Out.Shape[1]
	if q.Out.Layout == graph.ChannelsLast {
		channels = graph.ChannelsLast.PaddedChannels(channels) / widthLast
		row *= channels
	} else {
		rows *= channels
	}
	w, size := &work{b: b}, device.Size{Grid: [3]int{rows}, Block: [3]int{min((row+31)/32*32, threads)}}
	w.call(kernels.Program("windows.cu", fieldDefines(q.Out)...), name, size, append(append(addresses(q), int32(channels)), more...)...)
	return w.kernel(name)
}

// pool returns the rule of max_pool and avg_pool over windows of size k with stride s.
//
// Shape: x [N C D H W] → y [N C ⌊(D−k₀)/s₀⌋+1 ⌊(H−k₁)/s₁⌋+1 ⌊(W−k₂)/s₂⌋+1].
// Missing: NaN in a window gives NaN.
// Source: torch.nn.MaxPool3d and torch.nn.AvgPool3d.
func pool(mean bool) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		a := q.Attrs.(op.Pool)
		more := append(sides(q.In[0].Shape), sides(q.Out.Shape)...)
		more = append(append(more, int32s(a.Size[:]...)...), int32s(a.Stride[:]...)...)
		return b.overRows(q, "pool", q.Out.Shape, append(more, flag(mean))...)
	}
}

// flag returns a bool as an argument of a kernel.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// maxPoolGrad prepares max_pool_grad: dy goes to the first maximum of its window.
//
// If windows are disjoint, each thread processes one window and writes all of its
// cells. Windows that overlap have a slower kernel, in which each thread searches the
// windows that contain its cell; so no two threads write the same cell.
//
// Shape: x [N C D H W], dy as the pooled field → dx [N C D H W].
func maxPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Pool)
	more := append(append(sides(q.Out.Shape), sides(q.In[1].Shape)...), int32s(a.Size[:]...)...)
	if a.Size != a.Stride {
		return b.overRows(q, "max_pool_grad_any", q.Out.Shape, append(more, int32s(a.Stride[:]...)...)...)
	}
	all := q.Out.Shape.Clone() // windows, with those that are not whole
	for i, s := range a.Size {
		all[i+2] = (all[i+2] + s - 1) / s
	}
	return b.overRows(q, "max_pool_grad", all, more...)
}

// avgPoolGrad prepares avg_pool_grad: every element of a window receives dy divided by
// the size of the window, summed over the windows that contain it.
//
// Shape: dy as the pooled field → dx [N C D H W].
func avgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.PoolGrad)
	more := append(append(sides(q.Out.Shape), sides(q.In[0].Shape)...), int32s(a.Size[:]...)...)
	return b.overRows(q, "avg_pool_grad", q.Out.Shape, append(more, int32s(a.Stride[:]...)...)...)
}

// upsample prepares upsample, linear interpolation between cell centres by integer
// factors; with WrapLon longitudes are periodic.
//
// Shape: x [N C D H W] → y [N C D·f₀ H·f₁ W·f₂].
func upsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overRows(q, "upsample", q.Out.Shape, upArgs(q.Attrs.(op.Upsampling), q.In[0].Shape)...)
}

// upsampleGrad prepares upsample_grad, the adjoint of the interpolation. Each thread
// gathers the fine cells that depend on its coarse cell, so that no two threads write
// the same cell.
//
// Shape: dy [N C D·f₀ H·f₁ W·f₂] → dx [N C D H W].
func upsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overRows(q, "upsample_grad", q.Out.Shape, upArgs(q.Attrs.(op.UpsamplingGrad).Upsampling, q.Out.Shape)...)
}

// upArgs returns the arguments of an interpolation of a coarse field.
func upArgs(a op.Upsampling, coarse graph.Shape) []any {
	return append(append(sides(coarse), int32s(a.Scale[:]...)...), flag(a.WrapLon))
}
