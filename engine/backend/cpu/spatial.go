//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// field splits a shape [N C D H W] into the number of planes N·C and the sizes D, H, W.
func field(s graph.Shape) (planes int, in [3]int) {
	return s[0] * s[1], [3]int{s[2], s[3], s[4]}
}

// maxWindow is the largest window of kern.Pool.MaxPool, which stores positions in a
// byte.
const maxWindow = 256

// maxPool prepares max_pool with disjoint windows; others run the reference kernel.
//
// Shape: x [N C D H W] → y [N C ⌊D/k₀⌋ ⌊H/k₁⌋ ⌊W/k₂⌋].
func maxPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Pool)
	if a.Size != a.Stride || a.Size[0]*a.Size[1]*a.Size[2] > maxWindow {
		return backend.Kernel{}, nil
	}
	x, y := q.In[0].F32, q.Out.F32
	planes, in := field(q.In[0].Shape)
	arg := make([]uint8, len(y))
	return kernel("maxpool", func() { b.pool.MaxPool(y, arg, x, planes, in, a.Size) })
}

// maxPoolGrad prepares max_pool_grad: dy goes to the first maximum of its window.
//
// The positions of the maxima are recomputed from x, which costs less than to store
// them between the passes.
//
// Shape: x [N C D H W], dy [N C ⌊D/k₀⌋ ⌊H/k₁⌋ ⌊W/k₂⌋] → dx [N C D H W].
// Source: torch.nn.MaxPool3d.
func maxPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a := q.Attrs.(op.Pool)
	if a.Size != a.Stride || a.Size[0]*a.Size[1]*a.Size[2] > maxWindow {
		return backend.Kernel{}, nil
	}
	x, dy, dx := q.In[0].F32, q.In[2].F32, q.Out.F32
	planes, in := field(q.In[0].Shape)
	n := len(dy)
	arg := make([]uint8, n)
	b.needScratch(n)
	return kernel("maxpool_grad", func() {
		b.pool.MaxPool(b.scratch[:n], arg, x, planes, in, a.Size)
		b.pool.MaxPoolGrad(dx, dy, arg, planes, in, a.Size)
	})
}

// upsample prepares upsample, linear interpolation between cell centres by integer
// factors. Rows longer than kern.MaxFineRow run the reference kernel.
//
// Shape: x [N C D H W] → y [N C D·f₀ H·f₁ W·f₂].
func upsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, x, y := q.Attrs.(op.Upsampling), q.In[0].F32, q.Out.F32
	planes, in := field(q.In[0].Shape)
	if in[2]*a.Scale[2] > kern.MaxFineRow {
		return backend.Kernel{}, nil
	}
	return kernel("upsample", func() { b.pool.Upsample(y, x, planes, in, a.Scale, a.WrapLon) })
}

// upsampleGrad prepares upsample_grad, the adjoint of the interpolation.
//
// Source: torch.nn.Upsample(mode="trilinear", align_corners=False).
func upsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, dy, dx := q.Attrs.(op.UpsamplingGrad), q.In[0].F32, q.Out.F32
	planes, in := field(a.To)
	if in[2]*a.Scale[2] > kern.MaxFineRow {
		return backend.Kernel{}, nil
	}
	return kernel("upsample_grad", func() { b.pool.UpsampleGrad(dx, dy, planes, in, a.Scale, a.WrapLon) })
}

// concat prepares concat: rows of each operand are copied to their offset in the
// result.
func concat(b *Backend, q backend.Request) (backend.Kernel, error) {
	axis := q.Attrs.(op.AlongAxis).Axis
	rows, step := q.Out.Shape[:axis].Size(), q.Out.Shape[axis:].Size()
	out := q.Out.F32
	type part struct {
		x   []float32
		run int
	}
	parts := make([]part, len(q.In))
	for i, t := range q.In {
		parts[i] = part{t.F32, t.Shape[axis:].Size()}
	}
	return kernel("copy_rows", func() {
		at := 0
		for _, p := range parts {
			b.pool.CopyRows(out[at:], step, p.x, p.run, rows, p.run)
			at += p.run
		}
	})
}

// slice prepares slice: the range [Lo, Hi) of an axis.
func slice(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Range), q.In[0].Shape
	inner := s[a.Axis+1:].Size()
	run := (a.Hi - a.Lo) * inner
	x, y := q.In[0].F32[a.Lo*inner:], q.Out.F32
	rows, step := s[:a.Axis].Size(), s[a.Axis]*inner
	return kernel("copy_rows", func() { b.pool.CopyRows(y, run, x, step, rows, run) })
}

// embed prepares embed, the adjoint of slice: zeros, and x in the range [Lo, Hi) of an
// axis.
func embed(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Range), q.In[0].Shape
	inner := s[a.Axis+1:].Size()
	run, rows, step := s[a.Axis]*inner, s[:a.Axis].Size(), a.Size*inner
	x, y := q.In[0].F32, q.Out.F32
	return kernel("copy_rows", func() {
		b.pool.Fill(y, 0)
		b.pool.CopyRows(y[a.Lo*inner:], step, x, run, rows, run)
	})
}

// avgPool prepares avg_pool: the mean over windows that may overlap, row by row.
//
//	y = 1/(k₀k₁k₂) · Σ x over the window
func avgPool(_ *Backend, q backend.Request) (backend.Kernel, error) {
	a, x, y := q.Attrs.(op.Pool), q.In[0].F32, q.Out.F32
	in, out := q.In[0].Shape, q.Out.Shape
	return kernel("loop", func() {
		eachWindowRow(a, in, out, func(to, from int) {
			row := y[to : to+out[4]]
			for i := range row {
				var s float32
				for _, v := range x[from+i*a.Stride[2] : from+i*a.Stride[2]+a.Size[2]] {
					s += v
				}
				row[i] += s
			}
		}, func(to int) { clear(y[to : to+out[4]]) })
		n := 1 / float32(a.Size[0]*a.Size[1]*a.Size[2])
		for i := range y {
			y[i] *= n
		}
	})
}

// avgPoolGrad prepares avg_pool_grad: every element of a window receives dy/(k₀k₁k₂).
func avgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, dy, dx := q.Attrs.(op.PoolGrad), q.In[0].F32, q.Out.F32
	in, out := q.Out.Shape, q.In[0].Shape
	n := 1 / float32(a.Size[0]*a.Size[1]*a.Size[2])
	return kernel("loop", func() {
		b.pool.Fill(dx, 0)
		eachWindowRow(a.Pool, in, out, func(to, from int) {
			for i, d := range dy[to : to+out[4]] {
				cells := dx[from+i*a.Stride[2] : from+i*a.Stride[2]+a.Size[2]]
				for k := range cells {
					cells[k] += d * n
				}
			}
		}, func(int) {})
	})
}

// eachWindowRow calls visit(to, from) for every row of the pooled field and every input
// row that its windows cover; to and from are the offsets of the rows. first(to) is
// called before the visits of a pooled row.
func eachWindowRow(a op.Pool, in, out graph.Shape, visit func(to, from int), first func(to int)) {
	to := 0
	for p := range out[0] * out[1] {
		for d := range out[2] {
			for h := range out[3] {
				first(to)
				for i := range a.Size[0] {
					for j := range a.Size[1] {
						visit(to, ((p*in[2]+d*a.Stride[0]+i)*in[3]+h*a.Stride[1]+j)*in[4])
					}
				}
				to += out[4]
			}
		}
	}
}
