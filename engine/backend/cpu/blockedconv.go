//go:build cgo && linux

package cpu

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// winoSpec describes a convolution of x with w for kern.Wino; with adjoint set, the
// gradient with respect to the input, a convolution whose result has the shape of x. ok
// is false if package kern does not support it: only odd square filters without stride
// and dilation, periodic in longitude at most.
func (b *Backend) winoSpec(x, w graph.Shape, a op.Conv, adjoint bool) (kern.WinoSpec, bool) {
	s := kern.WinoSpec{N: x[0], K: w[0], KD: w[2], Side: w[3], FilterIn: w[1], Wrap: a.Pad[2].Periodic && w[4] > 1, Mask: kern.BlockMask(a.Mask)}
	s.Parts[0] = x[1]
	copy(s.Size[:], x[2:])
	ok := b.options.Winograd && w[3] == w[4]
	for i := range 3 {
		more := w[i+2]/2 - a.Pad[i].Size // extra cells of the input at each end of the axis
		if adjoint {
			more = -more
		} else {
			s.Size[i] -= 2 * more
		}
		s.Before[i], s.After[i] = more, more
		ok = ok && w[i+2]%2 == 1 && s.Size[i] > 0 && a.Stride[i] == 1 && a.Dilation[i] == 1 && (i == 2 && more == 0 || !a.Pad[i].Periodic || w[i+2] == 1)
	}
	return s, ok && kern.SupportsWino(s)
}

// partsSpec is winoSpec for an input of one or two tensors, concatenated along the
// channels. A block mask is dropped if the second tensor does not begin at a block
// boundary.
func (b *Backend) partsSpec(parts []graph.Shape, w graph.Shape, a op.Conv) (kern.WinoSpec, bool) {
	if len(parts) > 2 || !field5(parts...) {
		return kern.WinoSpec{}, false
	}
	x := parts[0].Clone()
	x[1] = w[1]
	s, ok := b.winoSpec(x, w, a, false)
	for i, p := range parts {
		s.Parts[i] = p[1]
	}
	if s.Parts[1] > 0 && s.Parts[0]%kern.Block != 0 { // the blocks of the second part straddle those of the filter
		s.Mask = ""
	}
	return s, ok
}

// winoCost estimates the seconds of a pass on one core:
//
//	FLOPs·⌈K/16⌉·16/K/winoRate + 16·points·(C + K)/memoryRate
//
// The first term counts whole blocks of output channels. The second is the traffic of
// tensors and their transforms, four accesses of four bytes to each padded value.
func winoCost(flops int64, s kern.WinoSpec) float64 {
	whole := func(c int) int { return (c + kern.Block - 1) / kern.Block * kern.Block }
	c := s.Parts[0] + s.Parts[1]
	cells := s.N * s.Size[0] * s.Size[1] * s.Size[2]
	waste := float64(whole(s.K)) / float64(s.K)
	return float64(flops)*waste/winoRate + 4*4*float64(cells*(whole(c)+whole(s.K)))/memoryRate
}

// forwardOperands returns the inputs, the filter and the attributes of conv3d or
// conv3d_fused.
func forwardOperands(attrs any, in []graph.Shape) (parts []graph.Shape, w graph.Shape, a op.FusedConv) {
	if c, ok := attrs.(op.Conv); ok {
		return in[:1], in[1], op.FusedConv{Conv: c}
	}
	return in[:len(in)-2], in[len(in)-2], attrs.(op.FusedConv)
}

// blockedParts returns the option in which the first n operands and the result are
// blocked.
func blockedParts(n, operands int) backend.LayoutOption {
	w := backend.LayoutOption{In: make([]graph.Layout, operands), Out: graph.Blocked}
	for i := range n {
		w.In[i] = graph.Blocked
	}
	return w
}

// winoForwardLayouts is the rule of the forward pass: inputs and result blocked, filter
// and bias plain.
func winoForwardLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	parts, w, a := forwardOperands(attrs, in)
	s, ok := b.partsSpec(parts, w, a.Conv)
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(parts), len(in))
	way.Cost = winoCost(op.Find("conv3d_fused").FLOPs(append(parts[:len(parts):len(parts)], w, graph.Shape{w[0]}), out, a), s)
	return way, true
}

// winoForward prepares the forward pass.
//
//	y = ReLU(conv(x, w) + b)
//
// Bias and ReLU are optional.
func winoForward(b *Backend, q backend.Request) (backend.Kernel, error) {
	job, err := b.prepareWino(q)
	if err != nil {
		return backend.Kernel{}, err
	}
	q, _ = withoutHalo(q)
	parts, _, _ := forwardOperands(q.Attrs, q.InShapes())
	var x1 kern.Stored
	var bias []float32
	if len(parts) > 1 {
		x1 = fieldOf(q.In[1])
	}
	if len(q.In) > len(parts)+1 {
		bias = q.In[len(parts)+1].F32
	}
	x0, filter, y := fieldOf(q.In[0]), q.In[len(parts)].F32, fieldOf(q.Out)
	return job.kernel(func(part kern.WinoPart) {
		job.RunPart(part, kern.WinoValues{Y: y, X0: x0, X1: x1, Filter: filter, Bias: bias, Scratch: b.scratch})
	})
}

// dataAttrs returns the attributes of conv3d_grad_data or conv3d_fused_grad_data.
func dataAttrs(attrs any) op.FusedConvGrad {
	if a, ok := attrs.(op.ConvGrad); ok {
		return op.FusedConvGrad{ConvGrad: a}
	}
	return attrs.(op.FusedConvGrad)
}

// dataSpec describes the gradient with respect to the input as a convolution of dy with
// the reversed filter.
func (b *Backend) dataSpec(w, dy graph.Shape, a op.FusedConvGrad) (kern.WinoSpec, bool) {
	if !field5(dy, a.To) {
		return kern.WinoSpec{}, false
	}
	s, ok := b.winoSpec(a.To, w, a.Conv, true)
	s.Parts, s.K, s.Flip, s.FilterLo = [2]int{dy[1]}, a.To[1], true, a.Lo
	s.Mask = adjointMask(a, w)
	return s, ok
}

// adjointMask returns the block mask of filter w with its two channel axes exchanged,
// for the input channels a.Lo to a.Lo+a.To[1]. It is empty if these do not begin at a
// block boundary.
func adjointMask(a op.FusedConvGrad, w graph.Shape) kern.BlockMask {
	if a.Mask == "" || a.Lo%kern.Block != 0 {
		return ""
	}
	var k []byte
	for c := a.Lo; c < a.Lo+a.To[1]; c += kern.Block {
		for o := 0; o < w[0]; o += kern.Block {
			if a.Mask.Keeps(o, c, w[1]) {
				k = append(k, '1')
			} else {
				k = append(k, '0')
			}
		}
	}
	return kern.BlockMask(k)
}

// winoDataLayouts is the rule of the gradient with respect to the input: all fields
// blocked, the filter plain.
func winoDataLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a := dataAttrs(attrs)
	s, ok := b.dataSpec(in[0], in[1], a)
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(in), len(in))
	way.In[0] = graph.Plain
	way.Cost = winoCost(op.Find("conv3d_fused_grad_data").FLOPs(in, out, a), s)
	return way, true
}

// winoData prepares the gradient with respect to the input.
//
//	dx = gate > 0 ? convᵀ(dy, w) + plus : 0
//
// Addend and gate are optional: plus is another gradient of the same value, gate the
// result of a ReLU before the convolution.
func winoData(b *Backend, q backend.Request) (backend.Kernel, error) {
	job, err := b.prepareWino(q)
	if err != nil {
		return backend.Kernel{}, err
	}
	q, _ = withoutHalo(q)
	a := dataAttrs(q.Attrs)
	w, dy, dx := q.In[0].F32, fieldOf(q.In[1]), fieldOf(q.Out)
	var plus, gate kern.Stored
	if a.HasAddend {
		plus = fieldOf(q.In[2])
	}
	if a.HasGate {
		gate = fieldOf(q.In[len(q.In)-1])
	}
	return job.kernel(func(part kern.WinoPart) {
		job.RunPart(part, kern.WinoValues{Y: dx, X0: dy, Filter: w, Gate: gate, Plus: plus, Scratch: b.scratch})
	})
}

// winoFilterLayouts is the rule of the gradient of the filter: fields blocked, the
// result plain.
func winoFilterLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a := attrs.(op.ConvGrad)
	s, ok := b.partsSpec(in[:len(in)-1], a.To, a.Conv)
	if !ok {
		return backend.LayoutOption{}, false
	}
	way := blockedParts(len(in), len(in))
	way.Out = graph.Plain
	way.Cost = winoCost(op.Find("conv3d_fused_grad_filter").FLOPs(in, out, a), s)
	return way, true
}

// winoFilter prepares the gradient of the filter.
//
//	dw[k,c,t] = Σ dy[k]·x[c] shifted by tap t, over samples and grid points
func winoFilter(b *Backend, q backend.Request) (backend.Kernel, error) {
	job, err := b.prepareWino(q)
	if err != nil {
		return backend.Kernel{}, err
	}
	q, _ = withoutHalo(q)
	parts := len(q.In) - 1
	x0, dy, dw := fieldOf(q.In[0]), fieldOf(q.In[parts]), q.Out.F32
	var x1 kern.Stored
	if parts > 1 {
		x1 = fieldOf(q.In[1])
	}
	return kernel(job.variant, func() { job.RunFilter(dw, x0, x1, dy, b.scratch) })
}
