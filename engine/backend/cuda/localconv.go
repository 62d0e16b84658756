package cuda

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// localCall describes a call of a kernel of locally connected convolutions, over n
// elements for groups of samples. rows is the shape whose last two axes are the rows.
type localCall struct {
	name    string
	conv    op.LocalConv
	x, y    graph.Shape
	n       int64
	rows    graph.Shape
	adjoint bool
	groups  int
}

// local prepares a locally connected convolution or one of its gradients, on plain
// fields with 32-bit indices.
//
//	y[n,k,p]  = Σ_c Σ_t w[k,c,t,p]·x[n,c,p+t]
//	dx[n,c,q] = Σ_k Σ_t w[k,c,t,q−t]·dy[n,k,q−t]
//	dw[k,c,t,p] = Σ_n dy[n,k,p]·x[n,c,p+t]
func (b *Backend) local(q backend.Request, c localCall) (backend.Kernel, error) {
	x, y, a := c.x, c.y, c.conv
	if max(int64(x[2:].Size()), int64(y[2:].Size())) > math.MaxInt32 || isLast(q) {
		return backend.Kernel{}, nil
	}
	conv := op.Conv{Pad: a.Pad}
	args := []any{at(q.In[0]), at(q.In[1]), at(q.Out), int32(c.rows[3]), int32(c.rows[4]), int32(x[0]), int32(x[1]), int32(y[1]),
		int32(a.Size[0]), int32(a.Size[1]), int32(a.Size[2]), int64(x[2:].Size()), int64(y[2:].Size())}
	for i, ax := range convAxes(x, graph.Shape{y[1], x[1], a.Size[0], a.Size[1], a.Size[2]}, y, conv) {
		if c.adjoint {
			ax = ax.adjoint(x[i+2])[0] // without strides it is one
		}
		args = append(args, ax.args()...)
	}
	size := gridFor(c.n)
	size.Grid[1] = c.groups
	w := &work{b: b}
	w.call(kernels.LocalConv(kernels.LocalSamples), c.name, size, args...)
	return w.kernel(c.name)
}

// localForward prepares local_conv: y[n,k,p] = Σ w[k,c,t,p]·x[n,c,p+t].
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092.
func localForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].Shape, q.Out.Shape
	return b.local(q, localCall{name: "local_conv", conv: q.Attrs.(op.LocalConv), x: x, y: y, n: int64(y[1:].Size()), rows: y, groups: ceil(x[0], kernels.LocalSamples)})
}

// localData prepares local_conv_grad_data, the gradient with respect to x.
func localData(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.Out.Shape, q.In[0].Shape
	return b.local(q, localCall{name: "local_conv_data", conv: q.Attrs.(op.LocalConvGrad).LocalConv, x: x, y: y, n: int64(x[1:].Size()), rows: x, adjoint: true,
		groups: ceil(x[0], kernels.LocalSamples)})
}

// localFilter prepares local_conv_grad_filter, the gradient with respect to w.
func localFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y := q.In[0].Shape, q.In[1].Shape
	return b.local(q, localCall{name: "local_conv_filter", conv: q.Attrs.(op.LocalConv), x: x, y: y, n: int64(q.Out.Shape.Size()), rows: y, groups: 1})
}
