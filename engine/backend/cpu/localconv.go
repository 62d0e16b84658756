//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// localSizes are the sizes of a locally connected convolution: n samples; in and out
// channels; filter values of a pair of channels, all grid points; grid points of x and
// y.
type localSizes struct{ n, in, out, filter, x, y int }

// newLocalSizes returns the sizes for input x, filter w and result y. The filter is
// stored as [K C·taps points].
func newLocalSizes(x, w, y graph.Shape) localSizes {
	points := y[2:].Size()
	return localSizes{n: x[0], in: x[1], out: y[1], filter: w[1] / x[1] * points, x: x[2:].Size(), y: points}
}

// localSums describes one of the passes of a locally connected convolution as sums of
// products a·b. The result has rows of row values.
type localSums struct {
	a, b      []float32                         // factors
	outer     [3]kern.ProductAxis               // axes outside of the rows: sizes and strides in result, a and b
	rows, row int                               // number of rows and values of a row
	runs      []op.LocalRun                     // runs of consecutive products of one tap
	runOf     func(op.LocalRun) kern.ProductRun // assigns the offsets of a run to result, a and b
}

// kernel prepares the sums (kern.Pool.Products). Runs are planned once, with the plan of the
// network.
func (s localSums) kernel(b *Backend, q backend.Request) (backend.Kernel, error) {
	own := make([]kern.ProductRun, len(s.runs))
	for i, r := range s.runs {
		own[i] = s.runOf(r)
	}
	z, plan := q.Out.F32, kern.NewProducts(s.outer, s.rows, s.row, own)
	return kernel("products", func() { b.pool.Products(z, s.a, s.b, plan) })
}

// localConv prepares local_conv, a convolution whose filter differs between grid
// points:
//
//	y[n,k,p] = Σ w[k,c,t,p]·x[n,c,p+t] over channels c and taps t
//
// Each tap is a run of products along longitude. Runs of one row of y are added in a
// fixed order.
func localConv(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, w, y := q.In[0], q.In[1], q.Out.Shape
	s := newLocalSizes(x.Shape, w.Shape, y)
	return localSums{
		a: w.F32, b: x.F32,
		outer: [3]kern.ProductAxis{{N: s.n, Z: s.out * s.y, B: s.in * s.x}, {N: s.out, Z: s.y, A: s.in * s.filter}, {N: s.in, A: s.filter, B: s.x}},
		rows:  y[2] * y[3], row: y[4],
		runs:  q.Attrs.(op.LocalConv).Runs(x.Shape, y),
		runOf: func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.Y, A: r.Filter, B: r.X, N: r.N} },
	}.kernel(b, q)
}

// localConvGradData prepares local_conv_grad_data, the gradient with respect to x:
//
//	dx[n,c,q] = Σ w[k,c,t,q−t]·dy[n,k,q−t] over channels k and taps t
//
// Source: Grönquist et al. 2021, doi:10.1098/rsta.2020.0092; op.LocalConv.
func localConvGradData(b *Backend, q backend.Request) (backend.Kernel, error) {
	dy, w, x := q.In[0], q.In[1], q.Out.Shape
	s := newLocalSizes(x, w.Shape, dy.Shape)
	return localSums{
		a: w.F32, b: dy.F32,
		outer: [3]kern.ProductAxis{{N: s.n, Z: s.in * s.x, B: s.out * s.y}, {N: s.in, Z: s.x, A: s.filter}, {N: s.out, A: s.in * s.filter, B: s.y}},
		rows:  x[2] * x[3], row: x[4],
		runs:  q.Attrs.(op.LocalConvGrad).Runs(x, dy.Shape),
		runOf: func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.X, A: r.Filter, B: r.Y, N: r.N} },
	}.kernel(b, q)
}

// localConvGradFilter prepares local_conv_grad_filter, the gradient with respect to w:
//
//	dw[k,c,t,p] = Σ dy[n,k,p]·x[n,c,p+t] over samples n
func localConvGradFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, dy, w := q.In[0], q.In[1], q.Out.Shape
	s := newLocalSizes(x.Shape, w, dy.Shape)
	return localSums{
		a: x.F32, b: dy.F32,
		outer: [3]kern.ProductAxis{{N: s.out, Z: s.in * s.filter, B: s.y}, {N: s.in, Z: s.filter, A: s.x}, {N: s.n, A: s.in * s.x, B: s.out * s.y}},
		rows:  s.filter / w[4], row: w[4],
		runs:  q.Attrs.(op.LocalConv).Runs(x.Shape, dy.Shape),
		runOf: func(r op.LocalRun) kern.ProductRun { return kern.ProductRun{Z: r.Filter, A: r.X, B: r.Y, N: r.N} },
	}.kernel(b, q)
}
