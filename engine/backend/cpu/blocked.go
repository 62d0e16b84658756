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

// layoutRule tells which operands of an operation and whether its result are
// blocked; ok is false if the request is not served.
type layoutRule func(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (way backend.LayoutOption, ok bool)

// prepareRule makes the kernel of a request that the way rule serves.
type prepareRule func(b *Backend, q backend.Request) (backend.Kernel, error)

// blockedForm is one form in which an operation runs on the blocked layout.
type blockedForm struct {
	layouts layoutRule
	prepare prepareRule
	// wino is true of Winograd's products, whose work can be cut in several ways (Cuts)
	// and whose source can come with its frame apart (framed).
	wino bool
}

// Convolutions: of one cell, by Winograd's products, and with a few plain
// channels on the side of the result.
var (
	blockedForward = []blockedForm{{pointForwardLayouts, pointForward, false}, {winoForwardLayouts, winoForward, true}, {thinForwardLayouts, thinForward, false}}
	blockedData    = []blockedForm{{pointDataLayouts, pointData, false}, {winoDataLayouts, winoData, true}, {thinDataLayouts, thinData, false}}
	blockedFilter  = []blockedForm{{pointFilterLayouts, pointFilter, false}, {winoFilterLayouts, winoFilter, true}, {thinFilterLayouts, thinFilter, false}}
)

// blockedConvs are those of the convolutions by their names.
var blockedConvs = map[string][]blockedForm{
	"conv3d":                   blockedForward,
	"conv3d_fused":             blockedForward,
	"conv3d_grad_data":         blockedData,
	"conv3d_fused_grad_data":   blockedData,
	"conv3d_grad_filter":       blockedFilter,
	"conv3d_fused_grad_filter": blockedFilter,
}

// blockedTable names the forms of all other operations on the blocked layout.
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

// layoutKernels names what has no forms, as a pass chooses its layouts beside those of the operations.
var layoutKernels = map[string]prepareRule{"reorder": reorder}

// formsOf are the forms of an operation. Of two that take and give the same layouts the
// first that serves a request runs it.
func formsOf(name string) []blockedForm {
	if f, ok := blockedConvs[name]; ok {
		return f
	}
	return blockedTable[name]
}

// Rates of one core by which ways are weighed before anything is measured:
// useful operations of convolutions in a second, and bytes.
const (
	plainRate  = 1.0e11
	winoRate   = 3.5e11
	memoryRate = 1.0e10
)

func bytes(l graph.Layout, shapes ...graph.Shape) float64 {
	n := 0
	for _, s := range shapes {
		n += l.Elems(s)
	}
	return 4 * float64(n)
}

// LayoutOptions lists the ways to run an operation.
func (b *Backend) LayoutOptions(o *graph.Op, attrs any, in []graph.Shape, out graph.Shape) []backend.LayoutOption {
	attrs = withoutMask(attrs) // see Measure
	plain := backend.LayoutOption{In: make([]graph.Layout, len(in)), Cost: bytes(graph.Plain, append(in[:len(in):len(in)], out)...) / memoryRate}
	if o.Window(in, attrs).Axes != nil || o.Window(in, attrs).FullAxes != nil {
		plain.Cost += float64(o.FLOPs(in, out, attrs)) / plainRate
	}
	ways := []backend.LayoutOption{plain}
	for _, f := range formsOf(o.Name) {
		w, ok := f.layouts(b, attrs, in, out)
		same := func(v backend.LayoutOption) bool { return v.Out == w.Out && slices.Equal(v.In, w.In) }
		if ok && !slices.ContainsFunc(ways, same) {
			ways = append(ways, w)
		}
	}
	return ways
}

// InnerLayout is the blocked layout.
func (*Backend) InnerLayout() graph.Layout { return graph.Blocked }

// CanStore is true of float32 and bfloat16: all kernels of blocked fields take
// both, on every processor, since they compute in float32.
func (*Backend) CanStore(d graph.DType) bool { return d == graph.Float32 || d == graph.BFloat16 }

// isBlocked tells whether anything of the request is blocked.
func isBlocked(q backend.Request) bool {
	for _, t := range q.In {
		if t.Layout == graph.Blocked {
			return true
		}
	}
	return q.Out.Layout == graph.Blocked
}

// form is the form in which a request of which something is blocked runs.
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

// prepareBlocked makes the kernel of such a request.
func (b *Backend) prepareBlocked(q backend.Request) (backend.Kernel, error) {
	if prepare := layoutKernels[q.Op.Name]; prepare != nil {
		return prepare(b, q)
	}
	f, ok := b.form(q)
	if !ok {
		return backend.Kernel{}, fmt.Errorf("backend cpu has no form of %s in these layouts", q.Op.Name)
	}
	return f.prepare(b, q)
}

// field5 tells whether all shapes are fields [N C D H W].
func field5(shapes ...graph.Shape) bool {
	for _, s := range shapes {
		if len(s) != 5 {
			return false
		}
	}
	return true
}

// flatLayouts serves operations point by point over operands of one shape that give
// zero for zeros: they run over the whole memory, padding lanes included.
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

// fieldOf are the values of a blocked field in their storage.
func fieldOf(t backend.Tensor) kern.Stored {
	if t.U16 != nil {
		return kern.BFloat16(t.U16)
	}
	return kern.Float32(t.F32)
}

// storedSum makes a kernel of a sum.
func storedSum(b *Backend, q backend.Request, s kern.StoredSum) (backend.Kernel, error) {
	z := fieldOf(q.Out)
	return kernel("blocked add", func() { b.pool.AddStored(z, s) })
}

func blockedReLU(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[0]), ReLU: true})
}

func blockedReLUGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[1]), Gate: fieldOf(q.In[0])})
}

func blockedAdd(b *Backend, q backend.Request) (backend.Kernel, error) {
	return storedSum(b, q, kern.StoredSum{A: fieldOf(q.In[0]), B: fieldOf(q.In[1])})
}

// blockedSub computes 1·x − 1·y + 0 in every channel.
func blockedSub(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y, z := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.In[1]), fieldOf(q.Out)
	one, minus, zero := make([]float32, s.C), make([]float32, s.C), make([]float32, s.C)
	for i := range one {
		one[i], minus[i] = 1, -1
	}
	return kernel("blocked combine", func() { b.pool.BlockedCombine(z, x, y, kern.Stored{}, one, minus, zero, s) })
}

func blockedScale(b *Backend, q backend.Request) (backend.Kernel, error) {
	p := float32(q.Attrs.(float64))
	return blockedAffine(b, q, false, func(slope, _ []float32) {
		for i := range slope {
			slope[i] = p
		}
	})
}

// blockedDropout serves dropout.
func blockedDropout(b *Backend, q backend.Request) (backend.Kernel, error) {
	d, s, x, y := dropoutSpec(q), blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked dropout", func() { b.pool.BlockedDropout(y, x, d(), s) })
}

// blockedShape is the shape of a blocked field.
func blockedShape(s graph.Shape) kern.Blocked {
	return kern.Blocked{N: s[0], C: s[1], S: [3]int{s[2], s[3], s[4]}}
}

// blockedLayouts is a way that reads the first n operands and gives its result
// blocked, if these are fields; result is false for one that is small and plain.
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

// reorder changes the layout of a value.
func reorder(b *Backend, q backend.Request) (backend.Kernel, error) {
	s := blockedShape(q.Out.Shape)
	if q.Out.Layout == graph.Blocked {
		x, y := q.In[0].F32, fieldOf(q.Out)
		return kernel("block", func() { b.pool.Block(y, s, x, 0, s.C) })
	}
	x, y := fieldOf(q.In[0]), q.Out.F32
	return kernel("unblock", func() { b.pool.Unblock(y, x, s, 0, s.C) })
}

func poolLayouts(_ *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	a, ok := attrs.(op.Pool)
	if g, is := attrs.(op.PoolGrad); is {
		a, ok = g.Pool, true
	}
	w, fields := blockedLayouts(len(in), in, out, true)
	return w, ok && fields && a.Size == a.Stride
}

func blockedMaxPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	if codes := q.Out.U8; codes != nil {
		s, size := blockedShape(q.In[0].Shape), q.Attrs.(op.Pool).Size
		return kernel("int8 window", func() { b.pool.Int8MaxPool(codes, q.In[0].U8, s, size) })
	}
	return blockedWindow(b, q, kern.Maximum)
}

func blockedAvgPool(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindow(b, q, kern.Mean)
}

func blockedWindow(b *Backend, q backend.Request, k kern.WindowKind) (backend.Kernel, error) {
	s, size, x, y := blockedShape(q.In[0].Shape), q.Attrs.(op.Pool).Size, fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked window", func() { b.pool.BlockedWindow(k, y, x, s, size) })
}

func blockedMaxPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindowGrad(b, q, kern.Maximum, fieldOf(q.In[0]), q.Attrs.(op.Pool).Size)
}

func blockedAvgPoolGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedWindowGrad(b, q, kern.Mean, kern.Stored{}, q.Attrs.(op.PoolGrad).Size)
}

func blockedWindowGrad(b *Backend, q backend.Request, k kern.WindowKind, x kern.Stored, size [3]int) (backend.Kernel, error) {
	s, dy, dx := blockedShape(q.Out.Shape), fieldOf(q.In[len(q.In)-1]), fieldOf(q.Out)
	return kernel("blocked window_grad", func() { b.pool.BlockedWindowGrad(k, dx, dy, x, s, size, 0) })
}

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

func blockedUpsample(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.Upsampling), blockedShape(q.In[0].Shape)
	x, y := fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked upsample", func() { b.pool.BlockedUpsample(y, x, s, a.Scale, a.WrapLon) })
}

func blockedUpsampleGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, s := q.Attrs.(op.UpsamplingGrad), blockedShape(q.Out.Shape)
	dy, dx := fieldOf(q.In[0]), fieldOf(q.Out)
	return kernel("blocked upsample_grad", func() { b.pool.BlockedUpsampleGrad(dx, dy, kern.Stored{}, s, a.Scale, a.WrapLon, 0) })
}

// channelsLayouts serves what joins or cuts fields along the channels.
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

func blockedSlice(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, xs := fieldOf(q.In[0]), blockedShape(q.In[0].Shape)
	y, ys, lo := fieldOf(q.Out), blockedShape(q.Out.Shape), q.Attrs.(op.Range).Lo
	return kernel("copy_channels", func() { b.pool.CopyChannels(y, ys, 0, x, xs, lo, ys.C) })
}

// toChannelsLayouts serves sums of fields to a few plain numbers per channel; all
// operands that are fields are blocked.
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

// perChannelLayouts serves a field and a few plain numbers per channel.
func perChannelLayouts(_ *Backend, _ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	return blockedLayouts(1, in, out, true)
}

func blockedBias(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	shift, one := q.In[1].F32, make([]float32, s.C)
	for i := range one {
		one[i] = 1
	}
	return kernel("blocked affine", func() { b.pool.BlockedAffine(y, x, one, shift, s, false) })
}

func blockedChannelSum(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.Out.F32
	return kernel("blocked sums", func() { b.pool.BlockedSums(y, nil, x, kern.Stored{}, kern.Stored{}, s) })
}

func blockedMoments(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.Out.F32
	return kernel("blocked moments", func() { b.pool.BlockedMoments(y[:s.C], y[s.C:], x, s) })
}

func blockedNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, dy := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), fieldOf(q.In[2])
	mom, y, eps := q.In[1].F32, q.Out.F32, q.Attrs.(op.Eps).Eps
	return kernel("blocked sums", func() {
		b.pool.BlockedSums(y[:s.C], y[s.C:], dy, x, kern.Stored{}, s)
		normDots(y, mom, eps, s.C)
	})
}

// blockedAffine makes a kernel of a straight line per channel, whose slope and
// shift fill computes before each run.
func blockedAffine(b *Backend, q backend.Request, relu bool, fill func(slope, shift []float32)) (backend.Kernel, error) {
	s, x, y := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out)
	slope, shift := make([]float32, s.C), make([]float32, s.C)
	return kernel("blocked affine", func() {
		fill(slope, shift)
		b.pool.BlockedAffine(y, x, slope, shift, s, relu)
	})
}

func blockedNorm(relu bool) prepareRule {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		return blockedAffine(b, q, relu, normFill(q))
	}
}

func blockedNormGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedAffine(b, q, false, normGradFill(q))
}

func blockedMomentsGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return blockedAffine(b, q, false, momentsGradFill(q))
}

// normSumsLayouts and normGradLayouts serve the fused gradients of a normalisation. Of a
// gradient with more channels the blocks that take part must lie together, and
// what else its last block holds be gated away.
func normSumsLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := toChannelsLayouts(b, attrs, in, out)
	return w, ok && wholeBlocks(attrs.(op.NormGrad), in[0], in[2])
}

func normGradLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w, ok := toChannelsLayouts(b, attrs, in, out)
	w.Out = graph.Blocked
	w.Cost += bytes(graph.Blocked, out) / memoryRate
	return w, ok && wholeBlocks(attrs.(op.NormGrad), in[0], in[4])
}

func wholeBlocks(a op.NormGrad, x, dy graph.Shape) bool {
	return dy.Equal(x) || a.HasGate && a.Lo%graph.BlockSize == 0
}

// normBlocks gives the part of operand n, the gradient of the result, that a
// fused gradient of a normalisation reads, and the gate.
func normBlocks(q backend.Request, n int) (dy, gate kern.Stored) {
	a, x := q.Attrs.(op.NormGrad), q.In[0]
	lo := a.Lo * x.Shape[2:].Size()
	if a.HasGate {
		gate = fieldOf(q.In[n+1])
	}
	return fieldOf(q.In[n]).Part(lo, lo+fieldOf(x).Len()), gate
}

func blockedNormFusedSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, mom, y, eps := blockedShape(q.In[0].Shape), fieldOf(q.In[0]), q.In[1].F32, q.Out.F32, q.Attrs.(op.NormGrad).Eps
	dy, gate := normBlocks(q, 2)
	return kernel("blocked sums", func() {
		b.pool.BlockedSums(y[:s.C], y[s.C:], dy, x, gate, s)
		normDots(y, mom, eps, s.C)
	})
}

func blockedNormFusedGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	s, x, y, lines := blockedShape(q.Out.Shape), fieldOf(q.In[0]), fieldOf(q.Out), newNormLines(q)
	dy, gate := normBlocks(q, 4)
	return kernel("blocked combine", func() {
		lines.fill()
		b.pool.BlockedCombine(y, dy, x, gate, lines.dyFactor, lines.xFactor, lines.shift, s)
	})
}

// mulLayouts serves products of two fields, and of a field with a number per channel.
func mulLayouts(b *Backend, attrs any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	if w, ok := flatLayouts(b, attrs, in, out); ok {
		return w, true
	}
	w, ok := blockedLayouts(1, in, out, true)
	return w, ok && in[0].Equal(out) && in[1].Equal(graph.Shape{1, out[1], 1, 1, 1})
}

func blockedMul(b *Backend, q backend.Request) (backend.Kernel, error) {
	if q.In[1].Layout == graph.Blocked {
		x, y, z := fieldOf(q.In[0]), fieldOf(q.In[1]), fieldOf(q.Out)
		return kernel("blocked mul", func() { b.pool.MulStored(z, x, y) })
	}
	factor := q.In[1].F32
	return blockedAffine(b, q, false, func(slope, _ []float32) { copy(slope, factor) })
}
