package cuda

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// local makes the kernel of a locally connected convolution or a gradient of it: of n
// elements, of rows in the last two axes, for groups of samples.
func (b *Backend) local(q backend.Request, name string, x, y graph.Shape, a op.LocalConv, n int64, rows graph.Shape, adjoint bool, groups int) (backend.Kernel, error) {
	if max(int64(x[2:].Size()), int64(y[2:].Size())) > math.MaxInt32 || isLast(q) {
		return backend.Kernel{}, nil
	}
	conv := op.Conv{Pad: a.Pad}
	args := []any{at(q.In[0]), at(q.In[1]), at(q.Out), int32(rows[3]), int32(rows[4]), int32(x[0]), int32(x[1]), int32(y[1]),
		int32(a.Size[0]), int32(a.Size[1]), int32(a.Size[2]), int64(x[2:].Size()), int64(y[2:].Size())}
	for i, ax := range convAxes(x, graph.Shape{y[1], x[1], a.Size[0], a.Size[1], a.Size[2]}, y, conv) {
		if adjoint {
			ax = ax.adjoint(x[i+2])[0] // without strides it is one
		}
		args = append(args, ax.args()...)
	}
	size := over(n)
	size.Grid[1] = groups
	w := &work{b: b}
	w.call(kernels.LocalConv(kernels.LocalSamples), name, size, args...)
	return w.kernel(name)
}

func localForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].Shape, q.Out.Shape
	return b.local(q, "local_conv", x, y, q.Attrs.(op.LocalConv), int64(y[1:].Size()), y, false, ceil(x[0], kernels.LocalSamples))
}

func localData(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.Out.Shape, q.In[0].Shape
	return b.local(q, "local_conv_data", x, y, q.Attrs.(op.LocalConvGrad).LocalConv, int64(x[1:].Size()), x, true, ceil(x[0], kernels.LocalSamples))
}

func localFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].Shape, q.In[1].Shape
	return b.local(q, "local_conv_filter", x, y, q.Attrs.(op.LocalConv), int64(q.Out.Shape.Size()), y, false, 1)
}
