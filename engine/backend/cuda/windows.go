package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// sides are the last three axes.
func sides(s graph.Shape) []any { return int32s(s[2:]...) }

func int32s(n ...int) (args []any) {
	for _, i := range n {
		args = append(args, int32(i))
	}
	return args
}

// overRows makes a kernel of one call, of which a block takes a row of a field of some sides, with the samples and
// channels of the result: kernel(operands…, result, channels, more…).
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

// pool serves pooling, by the mean or the maximum of windows.
func pool(mean bool) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		a := q.Attrs.(op.Pool)
		more := append(sides(q.In[0].Shape), sides(q.Out.Shape)...)
		more = append(append(more, int32s(a.Size[:]...)...), int32s(a.Stride[:]...)...)
		return b.overRows(q, "pool", q.Out.Shape, append(more, flag(mean))...)
	}
}

// flag is a truth value as kernels read it.
func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

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

func avgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.PoolGrad)
	more := append(append(sides(q.Out.Shape), sides(q.In[0].Shape)...), int32s(a.Size[:]...)...)
	return b.overRows(q, "avg_pool_grad", q.Out.Shape, append(more, int32s(a.Stride[:]...)...)...)
}

func upsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overRows(q, "upsample", q.Out.Shape, upArgs(q.Attrs.(op.Upsampling), q.In[0].Shape)...)
}

func upsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overRows(q, "upsample_grad", q.Out.Shape, upArgs(q.Attrs.(op.UpsamplingGrad).Upsampling, q.Out.Shape)...)
}

func upArgs(a op.Upsampling, coarse graph.Shape) []any {
	return append(append(sides(coarse), int32s(a.Scale[:]...)...), flag(a.WrapLon))
}
