package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// windows is the program of pooling and upsampling of fields like t.
func windows(t backend.Tensor) device.Program { return kernels.Program("windows.cu", onField(t)...) }

// turns is the number of values of one channel, or of eight lanes, that a field has, and of its channels
// counted so.
func turns(t backend.Tensor) (n int64, channels int32) {
	if t.Layout == graph.Last {
		return elems(t) / widthLast, int32(t.Layout.Lanes(t.Shape[1]) / widthLast)
	}
	return elems(t), int32(t.Shape[1])
}

// sides are the last three axes.
func sides(s graph.Shape) []any { return int32s(s[2:]...) }

func int32s(n ...int) (args []any) {
	for _, i := range n {
		args = append(args, int32(i))
	}
	return args
}

// overSpots makes a kernel of one call over the points of a field: kernel(operands…, result, n, channels, more…).
func (b *Backend) overSpots(q backend.Request, name string, of backend.Tensor, more ...any) (backend.Kernel, error) {
	n, channels := turns(of)
	return b.overMany(q, name, n, append([]any{channels}, more...)...)
}

func (b *Backend) overMany(q backend.Request, name string, n int64, more ...any) (backend.Kernel, error) {
	w := &work{b: b}
	w.call(windows(q.Out), name, over(n), append(append(addresses(q), n), more...)...)
	return w.kernel(name)
}

// pool serves max_pool and avg_pool.
func pool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, mean := q.Attrs.(op.Pool), 0
	if q.Op.Name == "avg_pool" {
		mean = 1
	}
	more := append(sides(q.In[0].Shape), sides(q.Out.Shape)...)
	more = append(append(more, int32s(a.Size[:]...)...), int32s(a.Stride[:]...)...)
	return b.overSpots(q, "pool", q.Out, append(more, int32(mean))...)
}

func maxPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Pool)
	more := append(append(sides(q.Out.Shape), sides(q.In[1].Shape)...), int32s(a.Size[:]...)...)
	if a.Size != a.Stride {
		return b.overSpots(q, "max_pool_grad_any", q.Out, append(more, int32s(a.Stride[:]...)...)...)
	}
	_, channels := turns(q.Out)
	n := int64(q.Out.Shape[0]) * int64(channels)
	for i, s := range a.Size {
		n *= int64((q.Out.Shape[i+2] + s - 1) / s)
	}
	return b.overMany(q, "max_pool_grad", n, append([]any{channels}, more...)...)
}

func avgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.PoolGrad)
	more := append(append(sides(q.Out.Shape), sides(q.In[0].Shape)...), int32s(a.Size[:]...)...)
	return b.overSpots(q, "avg_pool_grad", q.Out, append(more, int32s(a.Stride[:]...)...)...)
}

func upsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overSpots(q, "upsample", q.Out, upArgs(q.Attrs.(op.Up), q.In[0].Shape)...)
}

func upsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.overSpots(q, "upsample_grad", q.Out, upArgs(q.Attrs.(op.UpGrad).Up, q.Out.Shape)...)
}

func upArgs(a op.Up, coarse graph.Shape) []any {
	wrap := int32(0)
	if a.WrapLon {
		wrap = 1
	}
	return append(append(sides(coarse), int32s(a.Scale[:]...)...), wrap)
}
