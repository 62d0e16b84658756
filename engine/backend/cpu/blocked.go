//go:build cgo && linux

package cpu

import (
	"fmt"
	"slices"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// layoutRule returns the layouts of operands and result in which a form runs, and its
// estimated cost. ok is false if the form does not support the operation with these
// attributes and shapes.
type layoutRule func(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (way backend.LayoutOption, ok bool)

// prepareRule prepares the kernel of a request that the layout rule of the same form
// accepts.
type prepareRule func(b *Backend, q backend.Request) (backend.Kernel, error)

// blockedForm is one way to run an operation on the blocked layout.
type blockedForm struct {
	layouts layoutRule
	prepare prepareRule
	// wino marks Winograd convolutions. They have several variants (Variants) and accept
	// an input whose halo is a separate tensor (with_halo).
	wino bool
}

// Forms of convolutions, preferred ones first: filters of one grid point, Winograd's
// minimal filtering, and filters with few output channels, whose result is plain.
var (
	blockedForward = []blockedForm{{pointForwardLayouts, pointForward, false}, {winoForwardLayouts, winoForward, true}, {narrowForwardLayouts, narrowForward, false}}
	blockedData    = []blockedForm{{pointDataLayouts, pointData, false}, {winoDataLayouts, winoData, true}, {narrowDataLayouts, narrowData, false}}
	blockedFilter  = []blockedForm{{pointFilterLayouts, pointFilter, false}, {winoFilterLayouts, winoFilter, true}, {narrowFilterLayouts, narrowFilter, false}}
)

// blockedConvs lists the forms of convolutions by name of the operation.
var blockedConvs = map[string][]blockedForm{
	"conv3d":                   blockedForward,
	"conv3d_fused":             blockedForward,
	"conv3d_grad_data":         blockedData,
	"conv3d_fused_grad_data":   blockedData,
	"conv3d_grad_filter":       blockedFilter,
	"conv3d_fused_grad_filter": blockedFilter,
}

// blockedTable lists the forms of all other operations on the blocked layout.
var blockedTable = map[string][]blockedForm{
	"with_halo":               {{haloLayouts, haloKernel, true}},
	"max_pool":                {{poolLayouts, blockedMaxPool, false}},
	"max_pool_grad":           {{poolLayouts, blockedMaxPoolGrad, false}},
	"avg_pool":                {{poolLayouts, blockedAvgPool, false}},
	"avg_pool_grad":           {{poolLayouts, blockedAvgPoolGrad, false}},
	"upsample":                {{upsampleLayouts, blockedUpsample, false}},
	"upsample_grad":           {{upsampleLayouts, blockedUpsampleGrad, false}},
	"concat":                  {{channelsLayouts, blockedConcat, false}},
	"slice":                   {{channelsLayouts, blockedSlice, false}},
	"bias":                    {{perChannelLayouts, blockedBias, false}},
	"channel_sum":             {{toChannelsLayouts, blockedChannelSum, false}},
	"channel_moments":         {{toChannelsLayouts, blockedMoments, false}},
	"channel_norm_sums":       {{toChannelsLayouts, blockedNormSums, false}},
	"channel_norm":            {{perChannelLayouts, blockedNorm(false), false}},
	"channel_moments_grad":    {{perChannelLayouts, blockedMomentsGrad, false}},
	"channel_norm_grad":       {{perChannelLayouts, blockedNormGrad, false}},
	"channel_norm_fused":      {{perChannelLayouts, blockedNorm(true), false}},
	"channel_norm_fused_sums": {{normSumsLayouts, blockedNormFusedSums, false}},
	"channel_norm_fused_grad": {{normGradLayouts, blockedNormFusedGrad, false}},
	"dropout":                 {{flatLayouts, blockedDropout, false}},
	"relu":                    {{flatLayouts, blockedReLU, false}},
	"relu_grad":               {{flatLayouts, blockedReLUGrad, false}},
	"add":                     {{flatLayouts, blockedAdd, false}},
	"sub":                     {{flatLayouts, blockedSub, false}},
	"mul":                     {{mulLayouts, blockedMul, false}},
	"scale":                   {{flatLayouts, blockedScale, false}},
	"elementwise_chain":       {{chainLayouts, blockedChain, false}},
}

// layoutKernels lists operations without forms: the pass choose-layouts sets their
// layouts itself.
var layoutKernels = map[string]prepareRule{"reorder": reorder}

// formsOf returns the forms of an operation. Of two forms with the same layouts the
// first that supports a request runs.
func formsOf(name string) []blockedForm {
	if f, ok := blockedConvs[name]; ok {
		return f
	}
	return blockedTable[name]
}

// Rates of one core for estimating costs before anything is measured. They are orders
// of magnitude of processors with AVX-512; only their ratios matter.
const (
	plainRate  = 1.0e11 // FLOP/s of direct convolutions
	winoRate   = 3.5e11 // FLOP/s of Winograd convolutions, counted as direct ones
	memoryRate = 1.0e10 // bytes per second
)

// bytes returns the memory of float32 values of these shapes in a layout, padding
// channels included.
func bytes(l graph.Layout, shapes ...graph.Shape) float64 {
	n := 0
	for _, s := range shapes {
		n += l.Elems(s)
	}
	return 4 * float64(n)
}

// LayoutOptions lists the layouts in which an operation runs, with estimated costs. The
// first option has all tensors plain.
//
// Unit: seconds of one core.
func (b *Backend) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	attrs = withoutMask(attrs) // see Measure
	plain := backend.LayoutOption{In: make([]graph.Layout, len(in)), Cost: bytes(graph.Plain, append(in[:len(in):len(in)], out)...) / memoryRate}
	if o.Window(in, attrs).Axes != nil || o.Window(in, attrs).FullAxes != nil {
		plain.Cost += float64(o.FLOPs(in, out, attrs)) / plainRate
	}
	options := []backend.LayoutOption{plain}
	for _, f := range formsOf(o.Name) {
		w, ok := f.layouts(b, attrs, in, out)
		same := func(v backend.LayoutOption) bool { return v.Out == w.Out && slices.Equal(v.In, w.In) }
		if ok && !slices.ContainsFunc(options, same) {
			options = append(options, w)
		}
	}
	return options
}

// InnerLayout returns the blocked layout: channels in blocks of graph.BlockSize.
func (*Backend) InnerLayout() graph.Layout { return graph.Blocked }

// CanStore reports whether blocked fields can be stored as d: float32 and bfloat16.
// Kernels compute in float32, so both work on every processor.
func (*Backend) CanStore(d graph.DType) bool { return d == graph.Float32 || d == graph.BFloat16 }

// isBlocked reports whether an operand or the result is blocked.
func isBlocked(q backend.Request) bool {
	for _, t := range q.In {
		if t.Layout == graph.Blocked {
			return true
		}
	}
	return q.Out.Layout == graph.Blocked
}

// form returns the form whose layouts equal those of the request.
func (b *Backend) form(q backend.Request) (blockedForm, bool) {
	for _, f := range slices.Concat(formsOf(q.Op.Name), int8Table[q.Op.Name]) {
		w, ok := f.layouts(b, q.Attrs, q.InShapes(), q.Out.Shape)
		ok = ok && w.Out == q.Out.Layout
		for i, t := range q.In {
			ok = ok && w.In[i] == t.Layout
		}
		if ok {
			return f, true
		}
	}
	return blockedForm{}, false
}

// prepareBlocked prepares a request that has a blocked operand or result.
//
// Errors: no form has these layouts, which is a bug of the pass that chose them.
func (b *Backend) prepareBlocked(q backend.Request) (backend.Kernel, error) {
	if prepare := layoutKernels[q.Op.Name]; prepare != nil {
		return prepare(b, q)
	}
	f, ok := b.form(q)
	if !ok {
		return backend.Kernel{}, fmt.Errorf("backend cpu: %s: no kernel for these layouts", q.Op.Name)
	}
	return f.prepare(b, q)
}

// field5 reports whether all shapes are fields [N C D H W].
func field5(shapes ...graph.Shape) bool {
	for _, s := range shapes {
		if len(s) != 5 {
			return false
		}
	}
	return true
}

// flatLayouts is the rule of elementwise operations on fields of one shape that map
// zeros to zero. They run over all of the memory, padding channels included, and keep
// the padding zero.
func flatLayouts(_ *Backend, _ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{Out: graph.Blocked}
	for _, s := range in {
		if !field5(s) || !s.Equal(out) {
			return w, false
		}
		w.In = append(w.In, graph.Blocked)
	}
	w.Cost = bytes(graph.Blocked, append(in[:len(in):len(in)], out)...) / memoryRate
	return w, true
}

// fieldOf returns the values of a blocked field in their storage type.
func fieldOf(t backend.Tensor) kern.Stored {
	if t.U16 != nil {
		return kern.BFloat16(t.U16)
	}
	return kern.Float32(t.F32)
}

// storedSum returns a kernel of kern.Pool.AddStored.
func storedSum(b *Backend, q backend.Request, s kern.StoredSum) (backend.Kernel, error) {
	z := fieldOf(q.Out)
	return kernel("blocked add", func() { b.pool.AddStored(z, s) })
}

// blockedReLU prepares relu: max(x, 0).
func blockedReLU(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[0]), ReLU: true})
}

// blockedReLUGrad prepares relu_grad: dy where y > 0, else 0.
func blockedReLUGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[1]), Gate: fieldOf(q.In[0])})
}

// blockedAdd prepares add: x + y.
func blockedAdd(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[0]), B: fieldOf(q.In[1])})
}

// blockedSub prepares sub: it computes 1·x − 1·y + 0 in every channel.
func blockedSub(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y, z := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.In[1]), fieldOf(q.Out)
	one, minus, zero := make([]float32, s.C), make([]float32, s.C), make([]float32, s.C)
	for i := range one {
		one[i], minus[i] = 1, -1
	}
	return kernel("blocked combine", func() { b.pool.BlockedCombine(z, x, y, kern.Gate{}, one, minus, zero, s) })
}

// blockedScale prepares scale: p·x.
func blockedScale(b *Backend, q backend.Request) (backend.Kernel, error) {
	p := float32(q.Attrs.(float64))
	return blockedAffine(b, q, false, func(slope, _ []float32) {
		for i := range slope {
			slope[i] = p
		}
	})
}

// blockedDropout prepares dropout; elements are numbered as in the plain tensor, so
// that both layouts drop the same ones.
func blockedDropout(b *Backend, q backend.Request) (backend.Kernel, error) {
	d, s, x, y := dropoutSpec(q), blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked dropout", func() { b.pool.BlockedDropout(y, x, d(), s) })
}

// blockedShape returns the shape of a blocked field for package kern.
func blockedShape(s graph.Shape) kern.Blocked {
	return kern.Blocked{N: s[0], C: s[1], S: [3]int{s[2], s[3], s[4]}}
}

// blockedLayouts returns the option in which the first n operands are blocked and, if
// result is true, the result too. ok is false if one of them is not a field [N C D H
// W].
func blockedLayouts(n int, in []graph.Shape, out graph.Shape, result bool) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{In: make([]graph.Layout, len(in)), Cost: bytes(graph.Blocked, in...) / memoryRate}
	for i := range n {
		w.In[i] = graph.Blocked
	}
	if result {
		w.Out = graph.Blocked
		w.Cost += bytes(graph.Blocked, out) / memoryRate
	}
	return w, field5(in[:n]...) && (!result || field5(out))
}

// reorder prepares the conversion between the plain and the blocked layout.
func reorder(b *Backend, q backend.Request) (backend.Kernel, error) {
	s := blockedShape(q.Out.Shape)
	if q.Out.Layout == graph.Blocked {
		x, y := q.In[0].F32, fieldOf(q.Out)
		return kernel("block", func() { b.pool.Block(y, s, x, 0, s.C) })
	}
	x, y := fieldOf(q.In[0]), q.Out.F32
	return kernel("unblock", func() { b.pool.Unblock(y, x, s, 0, s.C) })
}

// poolLayouts is the rule of pooling with disjoint windows: the stride equals the size.
func poolLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a, ok := attrs.(op.Pool)
	if g, is := attrs.(op.PoolGrad); is {
		a, ok = g.Pool, true
	}
	w, fields := blockedLayouts(len(in), in, out, true)
	return w, ok && fields && a.Size == a.Stride
}

// blockedMaxPool prepares max_pool, also of uint8 values in int8 inference: the maximum
// of stored values is that of real values, because scales are positive.
func blockedMaxPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	if codes := q.Out.U8; codes != nil {
		s, size := blockedShape(q.In[0].Shape), q.Attrs.(op.Pool).Size
		return kernel("int8 window", func() { b.pool.Int8MaxPool(codes, q.In[0].U8, s, size) })
	}
	return blockedWindow(b, q, kern.Maximum)
}

// blockedAvgPool prepares avg_pool.
func blockedAvgPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindow(b, q, kern.Mean)
}

// blockedWindow prepares the maximum or the mean over windows.
//
// Shape: x [N C D H W] → y [N C ⌊D/k₀⌋ ⌊H/k₁⌋ ⌊W/k₂⌋].
func blockedWindow(b *Backend, q backend.Request, k kern.WindowKind) (backend.Kernel, error) {
	s, size, x, y := blockedShape(q.In[0].Shape), q.Attrs.(op.Pool).Size, fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked window", func() { b.pool.BlockedWindow(k, y, x, s, size) })
}

// blockedMaxPoolGrad prepares max_pool_grad. It finds the positions of the maxima again
// from x, which costs less than to store them.
func blockedMaxPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindowGrad(b, q, kern.Maximum, fieldOf(q.In[0]), q.Attrs.(op.Pool).Size)
}

// blockedAvgPoolGrad prepares avg_pool_grad: every element of a window receives dy
// divided by the size of the window.
func blockedAvgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindowGrad(b, q, kern.Mean, kern.Stored{}, q.Attrs.(op.PoolGrad).Size)
}

// blockedWindowGrad prepares the gradient of a maximum or a mean; x is not needed for
// the mean.
func blockedWindowGrad(b *Backend, q backend.Request, k kern.WindowKind, x kern.Stored, size [3]int) (backend.Kernel, error) {
	s, dy, dx := blockedShape(q.Out.Shape), fieldOf(q.In[len(q.In)-1]), fieldOf(q.Out)
	return kernel("blocked window_grad", func() { b.pool.BlockedWindowGrad(k, dx, dy, x, s, size, 0) })
}

// upsampleLayouts is the rule of linear interpolation; factors are limited by the stack
// arrays of the kernel.
func upsampleLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a, ok := attrs.(op.Upsampling)
	if g, is := attrs.(op.UpsamplingGrad); is {
		a, ok = g.Upsampling, true
	}
	for _, f := range a.Scale {
		ok = ok && f <= kern.MaxBlockedFactor
	}
	w, fields := blockedLayouts(1, in, out, true)
	return w, ok && fields
}

// blockedUpsample prepares upsample: linear interpolation between cell centres.
func blockedUpsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Upsampling), blockedShape(q.In[0].Shape)
	x, y := fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked upsample", func() { b.pool.BlockedUpsample(y, x, s, a.Scale, a.WrapLon) })
}

// blockedUpsampleGrad prepares upsample_grad, the adjoint of the interpolation.
func blockedUpsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.UpsamplingGrad), blockedShape(q.Out.Shape)
	dy, dx := fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked upsample_grad", func() { b.pool.BlockedUpsampleGrad(dx, dy, kern.Stored{}, s, a.Scale, a.WrapLon, 0) })
}

// channelsLayouts is the rule of concat and slice along the channel axis.
func channelsLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	axis := -1
	switch a := attrs.(type) {
	case op.AlongAxis:
		axis = a.Axis
	case op.Range:
		axis = a.Axis
	}
	w, fields := blockedLayouts(len(in), in, out, true)
	return w, fields && axis == 1
}

// blockedConcat prepares concat along channels. Parts need not begin at a block of
// channels.
func blockedConcat(b *Backend, q backend.Request) (backend.Kernel, error) {
	y, s := fieldOf(q.Out), blockedShape(q.Out.Shape)
	type part struct {
		x kern.Stored
		s kern.Blocked
	}
	var parts []part
	for _, t := range q.In {
		parts = append(parts, part{fieldOf(t), blockedShape(t.Shape)})
	}
	return kernel("copy_channels", func() {
		at := 0
		for _, p := range parts {
			b.pool.CopyChannels(y, s, at, p.x, p.s, 0, p.s.C)
			at += p.s.C
		}
	})
}

// blockedSlice prepares slice along channels.
func blockedSlice(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, xs := fieldOf(q.In[0]), blockedShape(q.In[0].Shape)
	y, ys, lo := fieldOf(q.Out), blockedShape(q.Out.Shape), q.Attrs.(op.Range).Lo
	return kernel("copy_channels", func() { b.pool.CopyChannels(y, ys, 0, x, xs, lo, ys.C) })
}

// toChannelsLayouts is the rule of reductions of fields to a few plain numbers per
// channel. All operands that are fields are blocked.
func toChannelsLayouts(_ *Backend, _ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{In: make([]graph.Layout, len(in))}
	for i, s := range in {
		if field5(s) {
			w.In[i] = graph.Blocked
			w.Cost += bytes(graph.Blocked, s) / memoryRate
		}
	}
	return w, field5(in[0])
}

// perChannelLayouts is the rule of operations on a blocked field and plain numbers per
// channel.
func perChannelLayouts(_ *Backend, _ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	return blockedLayouts(1, in, out, true)
}

// blockedBias prepares bias: x + b[c].
func blockedBias(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	shift, one := q.In[1].F32, make([]float32, s.C)
	for i := range one {
		one[i] = 1
	}
	return kernel("blocked affine", func() { b.pool.BlockedAffine(y, x, one, shift, s, false) })
}

// blockedChannelSum prepares channel_sum: Σ x over samples and grid points.
func blockedChannelSum(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.Out.F32
	return kernel("blocked sums", func() { b.pool.BlockedSums(y, nil, x, kern.Stored{}, kern.Gate{}, s) })
}

// blockedMoments prepares channel_moments: mean and variance per channel.
func blockedMoments(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.Out.F32
	return kernel("blocked moments", func() { b.pool.BlockedMoments(y[:s.C], y[s.C:], x, s) })
}

// blockedNormSums prepares channel_norm_sums (normDots).
func blockedNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, dy := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), fieldOf(q.In[2])
	mom, y, eps := q.In[1].F32, q.Out.F32, q.Attrs.(op.Eps).Eps
	return kernel("blocked sums", func() {
		b.pool.BlockedSums(y[:s.C], y[s.C:], dy, x, kern.Gate{}, s)
		normDots(y, mom, eps, s.C)
	})
}

// blockedAffine prepares y = slope[c]·x + shift[c], optionally followed by ReLU. fill
// computes slope and shift before each run.
func blockedAffine(b *Backend, q backend.Request, relu bool, fill func(slope, shift []float32)) (backend.Kernel, error) {
	s, x, y := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	slope, shift := make([]float32, s.C), make([]float32, s.C)
	return kernel("blocked affine", func() {
		fill(slope, shift)
		b.pool.BlockedAffine(y, x, slope, shift, s, relu)
	})
}

// blockedNorm returns the rule for normalisation per channel, with or without ReLU.
func blockedNorm(relu bool) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		return blockedAffine(b, q, relu, normFill(q))
	}
}

// blockedNormGrad prepares channel_norm_grad: the direct part of the gradient, with the
// moments held constant.
func blockedNormGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedAffine(b, q, false, normGradFill(q))
}

// blockedMomentsGrad prepares channel_moments_grad (momentsLine).
func blockedMomentsGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedAffine(b, q, false, momentsGradFill(q))
}

// normSumsLayouts is the rule of the reductions in the backward pass of a fused
// normalisation. dy may have more channels than x: then its channels must begin at a
// block boundary, and ReLU must zero the other channels of the last block.
func normSumsLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := toChannelsLayouts(b, attrs, in, out)
	return w, ok && wholeBlocks(attrs.(op.NormGrad), in[0], in[2])
}

// normGradLayouts is the rule of the backward pass of a fused normalisation; it has the
// same condition as normSumsLayouts.
func normGradLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := toChannelsLayouts(b, attrs, in, out)
	w.Out = graph.Blocked
	w.Cost += bytes(graph.Blocked, out) / memoryRate
	return w, ok && wholeBlocks(attrs.(op.NormGrad), in[0], in[4])
}

// wholeBlocks reports whether the channels of dy that belong to x are whole blocks.
func wholeBlocks(a op.NormGrad, x, dy graph.Shape) bool {
	return dy.Equal(x) || a.ReLU && a.Lo%graph.BlockSize == 0
}

// normBlocks returns the channels of operand n, the gradient of the result, that the
// backward pass of a normalisation reads.
func normBlocks(q backend.Request, n int) kern.Stored {
	x := q.In[0]
	lo := q.Attrs.(op.NormGrad).Lo * x.Shape[2:].Size()
	return fieldOf(q.In[n]).Part(lo, lo+fieldOf(x).Len())
}

// blockedNormFusedSums prepares channel_norm_fused_sums: the sums of normDots where the
// gate is positive.
func blockedNormFusedSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, mom, y, eps := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.In[1].F32, q.Out.F32, q.Attrs.(op.NormGrad).Eps
	dy, gate := normBlocks(q, 2), newNormGate(q, 3, 4)
	return kernel("blocked sums", func() {
		gate.fill()
		b.pool.BlockedSums(y[:s.C], y[s.C:], dy, x, gate.Gate, s)
		normDots(y, mom, eps, s.C)
	})
}

// blockedNormFusedGrad prepares channel_norm_fused_grad (normLines).
func blockedNormFusedGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y, lines := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out), newNormLines(q)
	dy, gate := normBlocks(q, 4), newNormGate(q, 2, 5)
	return kernel("blocked combine", func() {
		gate.fill()
		lines.fill()
		b.pool.BlockedCombine(y, dy, x, gate.Gate, lines.dyFactor, lines.xFactor, lines.shift, s)
	})
}

// mulLayouts is the rule of products of two fields, and of a field with a number per
// channel.
func mulLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	if w, ok := flatLayouts(b, attrs, in, out); ok {
		return w, true
	}
	w, ok := blockedLayouts(1, in, out, true)
	return w, ok && in[0].Equal(out) && in[1].Equal(graph.Shape{1, out[1], 1, 1, 1})
}

// blockedMul prepares mul.
func blockedMul(b *Backend, q backend.Request) (backend.Kernel, error) {
	if q.In[1].Layout == graph.Blocked {
		x, y, z := fieldOf(q.In[0]), fieldOf(q.In[1]), fieldOf(q.Out)
		return kernel("blocked mul", func() { b.pool.MulStored(z, x, y) })
	}
	factor := q.In[1].F32
	return blockedAffine(b, q, false, func(slope, _ []float32) { copy(slope, factor) })
}
