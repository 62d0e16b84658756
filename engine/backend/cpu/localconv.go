//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// localSizes are the sizes of a locally connected convolution: samples, channels of x and
// of the result, filter values of each pair of channels, and points of x and of the result.
type localSizes struct{ n, in, out, filter, x, y int }

func newLocalSizes(x, w, y graph.Shape) localSizes {
	points := y[2:].Size()
	return localSizes{n: x[0], in: x[1], out: y[1], filter: w[1] / x[1] * points, x: x[2:].Size(), y: points}
}

// products makes the kernel of sums of a·b in rows of z of a length.
func products(b *Backend, q backend.Request, x, y []float32, outer [3]kern.ProductAxis, rows, row int, runs []op.LocalRun, of func(op.LocalRun) kern.ProductRun) (backend.Kernel, error) {
	own := make([]kern.ProductRun, len(runs))
	for i, r := range runs {
		own[i] = of(r)
	}
	z, plan := q.Out.F32, kern.NewProducts(outer, rows, row, own)
	return kernel("products", func() { b.pool.Products(z, x, y, plan) })
}

// localConv serves local_conv.
func localConv(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, w, y := q.In[0], q.In[1], q.Out.Shape
	s, runs := newLocalSizes(x.Shape, w.Shape, y), q.Attrs.(op.LocalConv).Runs(x.Shape, y)
	return products(b, q, w.F32, x.F32, [3]kern.ProductAxis{
		{N: s.n, Z: s.out * s.y, B: s.in * s.x}, {N: s.out, Z: s.y, A: s.in * s.filter}, {N: s.in, A: s.filter, B: s.x},
	}, y[2]*y[3], y[4], runs, func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.Y, A: r.Filter, B: r.X, N: r.N} })
}

// localConvGradData serves local_conv_grad_data.
func localConvGradData(b *Backend, q backend.Request) (backend.Kernel, error) {
	dy, w, x := q.In[0], q.In[1], q.Out.Shape
	s, runs := newLocalSizes(x, w.Shape, dy.Shape), q.Attrs.(op.LocalConvGrad).Runs(x, dy.Shape)
	return products(b, q, w.F32, dy.F32, [3]kern.ProductAxis{
		{N: s.n, Z: s.in * s.x, B: s.out * s.y}, {N: s.in, Z: s.x, A: s.filter}, {N: s.out, A: s.in * s.filter, B: s.y},
	}, x[2]*x[3], x[4], runs, func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.X, A: r.Filter, B: r.Y, N: r.N} })
}

// localConvGradFilter serves local_conv_grad_filter.
func localConvGradFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, dy, w := q.In[0], q.In[1], q.Out.Shape
	s, runs := newLocalSizes(x.Shape, w, dy.Shape), q.Attrs.(op.LocalConv).Runs(x.Shape, dy.Shape)
	return products(b, q, x.F32, dy.F32, [3]kern.ProductAxis{
		{N: s.out, Z: s.in * s.filter, B: s.y}, {N: s.in, Z: s.filter, A: s.x}, {N: s.n, A: s.in * s.x, B: s.out * s.y},
	}, s.filter/w[4], w[4], runs, func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.Filter, A: r.X, B: r.Y, N: r.N} })
}
