//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// pointSpec describes a convolution whose filter is a single grid point, a matrix
// product over channels. ok is false for others.
func pointSpec(parts []graph.Shape, w graph.Shape, a op.Conv) (kern.Point, bool) {
	if len(parts) == 0 || len(parts) > 2 || !field5(parts...) || w[2:].Size() != 1 {
		return kern.Point{}, false
	}
	s := kern.Point{N: parts[0][0], Cells: parts[0][2:].Size(), K: w[0]}
	for i, p := range parts {
		s.Parts[i] = p[1]
	}
	ok := true
	for i := range 3 {
		ok = ok && a.Stride[i] == 1 && a.Pad[i].Size == 0
	}
	return s, ok
}

// pointCost estimates the seconds of one core: 2·points·C·K operations of whole blocks
// of output channels at plainRate, plus memory traffic at memoryRate.
func pointCost(s kern.Point, in []graph.Shape, out graph.Shape) float64 {
	whole := (s.K + kern.Block - 1) / kern.Block * kern.Block
	return 2*float64(s.N*s.Cells)*float64(s.Source())*float64(whole)/plainRate +
		bytes(graph.Blocked, append(in[:len(in):len(in)], out)...)/memoryRate
}

// pointForwardLayouts is the rule of the forward pass.
func pointForwardLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	parts, w, a := forwardOperands(attrs, in)
	s, ok := pointSpec(parts, w, a.Conv)
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(parts), len(in))
	way.Cost = pointCost(s, parts, out)
	return way, true
}

// Least channels of filters of one grid point from which tiles of AMX are faster, by 1.2 to 6 on the
// processor measured. Below, the kernels here are: they copy nothing.
const directPointIn, directPointOut = 64, 32

// directPoint reports whether a convolution with a filter of one grid point multiplies tiles of
// bfloat16, as those with larger filters do.
func (b *Backend) directPoint(q backend.Request) bool {
	p, ok := b.winoPassOf(q)
	return ok && kern.SupportsDirect(p.WinoSpec) && p.Parts[0]+p.Parts[1] >= directPointIn && p.K >= directPointOut
}

// pointForward prepares y[k] = ReLU(Σ w[k,c]·x[c] + b[k]) at every grid point; bias and
// ReLU are optional.
func pointForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	if b.directPoint(q) {
		return winoForward(b, q)
	}
	parts, w, a := forwardOperands(q.Attrs, q.InShapes())
	s, _ := pointSpec(parts, w, a.Conv)
	args := kern.PointArgs{X0: fieldOf(q.In[0]), W: q.In[len(parts)].F32, WK: s.Source(), WC: 1, ReLU: a.ReLU}
	if len(parts) > 1 {
		args.X1 = fieldOf(q.In[1])
	}
	if len(q.In) > len(parts)+1 {
		args.Bias = q.In[len(parts)+1].F32
	}
	return b.point(fieldOf(q.Out), args, s)
}

// point returns the kernel of a matrix product over channels.
func (b *Backend) point(y kern.Stored, args kern.PointArgs, s kern.Point) (backend.Kernel, error) {
	b.needScratch(s.ScratchLen())
	return kernel("point", func() { b.pool.PointConv(y, args, b.scratch, s) })
}

// pointDataSpec describes the gradient with respect to the input as a product of dy
// with the transposed filter.
func pointDataSpec(in []graph.Shape, a op.FusedConvGrad) (kern.Point, bool) {
	s, ok := pointSpec(in[1:2], in[0], a.Conv)
	s.K = a.To[1]
	return s, ok
}

// pointDataLayouts is the rule of the gradient with respect to the input.
func pointDataLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	s, ok := pointDataSpec(in, dataAttrs(attrs))
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(in), len(in))
	way.In[0] = graph.Plain
	way.Cost = pointCost(s, in[1:], out)
	return way, true
}

// pointData prepares dx[c] = Σ w[k,c]·dy[k], with optional addend and gate as winoData.
func pointData(b *Backend, q backend.Request) (backend.Kernel, error) {
	if b.directPoint(q) {
		return winoData(b, q)
	}
	a := dataAttrs(q.Attrs)
	s, _ := pointDataSpec(q.InShapes(), a)
	args := kern.PointArgs{X0: fieldOf(q.In[1]), W: q.In[0].F32[a.Lo:], WK: 1, WC: q.In[0].Shape[1]}
	if a.HasAddend {
		args.Plus = fieldOf(q.In[2])
	}
	if a.HasGate {
		args.Gate = fieldOf(q.In[len(q.In)-1])
	}
	return b.point(fieldOf(q.Out), args, s)
}

// pointFilterLayouts is the rule of the gradient of the filter.
func pointFilterLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.ConvGrad)
	s, ok := pointSpec(in[:len(in)-1], a.To, a.Conv)
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(in), len(in))
	way.Out = graph.Plain
	way.Cost = pointCost(s, in, out)
	return way, true
}

// pointFilter prepares dw[k,c] = Σ dy[k]·x[c] over samples and grid points.
func pointFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	if b.directPoint(q) {
		return winoFilter(b, q)
	}
	a, parts := q.Attrs.(op.ConvGrad), len(q.In)-1
	s, _ := pointSpec(q.InShapes()[:parts], a.To, a.Conv)
	x0, dy, dw := fieldOf(q.In[0]), fieldOf(q.In[parts]), q.Out.F32
	var x1 kern.Stored
	if parts > 1 {
		x1 = fieldOf(q.In[1])
	}
	return kernel("point filter", func() { b.pool.PointFilter(dw, x0, x1, dy, s) })
}
