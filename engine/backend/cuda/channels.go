package cuda

import (
	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/device"
	"github.com/ensemble-weather/ensemble/engine/backend/cuda/kernels"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// walk defines how blocks of threads traverse a field (field.cuh).
type walk struct {
	size            device.Size
	channels, lanes int
	points          int64 // of all samples with channels last, else of one sample
	// each is the number of grid points of a block.
	each int64
	// parts is the number of blocks that traverse one channel; sums have a partial result
	// for each.
	parts int
}

// widthLast is the number of channels that a thread processes together.
const widthLast = 8

// newWalk returns the traversal of a value [N C …] in which each thread processes turns
// grid points.
func newWalk(t backend.Tensor, turns int) walk {
	s := t.Shape
	p := int64(s[2:].Size())
	if t.Layout == graph.ChannelsLast {
		w := walk{channels: s[1], lanes: graph.ChannelsLast.PaddedChannels(s[1]), points: int64(s[0]) * p}
		// A block covers up to 32 groups of widthLast channels, and as many grid points as
		// it has threads left.
		columns := w.lanes / widthLast
		tiles := (columns + 31) / 32
		columns = (columns + tiles - 1) / tiles
		rows := threads / columns
		w.each = int64(rows * turns)
		w.parts = int((w.points + w.each - 1) / w.each)
		w.size = device.Size{Grid: [3]int{w.parts, tiles}, Block: [3]int{columns, rows}}
		return w
	}
	// A block covers grid points of one channel of one sample.
	w := walk{channels: s[1], lanes: s[1], points: p, each: int64(threads * turns)}
	pieces := int((p + w.each - 1) / w.each)
	w.parts = s[0] * pieces
	w.size = device.Size{Grid: [3]int{w.parts * s[1]}, Block: [3]int{int(min((p+31)/32*32, threads))}}
	return w
}

// args returns the arguments that describe the traversal to a kernel.
func (w walk) args() []any { return []any{int32(w.channels), int32(w.lanes), w.points, int32(w.each)} }

// Grid points of a thread: for maps enough that reading the coefficients of a channel
// does not count, for sums few enough that float32 sums stay accurate.
const (
	mapTurns = 16
	sumTurns = 32
)

// fieldDefines returns the macros of programs over a field.
func fieldDefines(t backend.Tensor) []string {
	d := []string{define("T", stored(t))}
	if t.Layout == graph.ChannelsLast {
		d = append(d, define("LAST", 1))
	}
	return d
}

// channels returns the program of sums and maps per channel.
func channels(t backend.Tensor) device.Program {
	return kernels.Program("channels.cu", fieldDefines(t)...)
}

// channelMap returns the rule of an elementwise operation with coefficients per
// channel, in one call: kernel(operands…, result, walk, more…).
func channelMap(name string, more func(q backend.Request) []any) prepare {
	return func(b *Backend, q backend.Request) (backend.Kernel, error) {
		w, walk := &work{b: b}, newWalk(q.In[0], mapTurns)
		w.call(channels(q.Out), name, walk.size, append(append(addresses(q), walk.args()...), more(q)...)...)
		return w.kernel(name)
	}
}

// Maps of fields with coefficients per channel.
var (
	bias            = channelMap("bias", func(backend.Request) []any { return nil })
	channelNormGrad = channelMap("norm_grad", func(q backend.Request) []any { return []any{float32(q.Attrs.(op.Eps).Eps)} })
	momentsGrad     = channelMap("moments_grad", func(q backend.Request) []any { return []any{perValue(q.In[0])} })
)

// channelNorm returns the rule of normalisation per channel, optionally with ReLU:
//
//	y = (x − mean)·r·gamma + beta,  r = (variance + eps)^−½
//
// Shape: x [N C …], moments [2 C], gamma, beta [C] → y [N C …].
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, algorithm 1.
func channelNorm(relu bool) prepare {
	return channelMap("channel_norm", func(q backend.Request) []any { return []any{float32(q.Attrs.(op.Eps).Eps), flag(relu)} })
}

// perValue returns 1 over the number of values of a channel.
func perValue(t backend.Tensor) float32 {
	return float32(float64(t.Shape[1]) / float64(t.Shape.Size()))
}

// normMomentsGrad prepares channel_norm_moments_grad: the gradient with respect to mean
// and variance.
func normMomentsGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, c := &work{b: b}, q.In[1].Shape.Size()
	w.call(channels(q.Out), "norm_moments_grad", gridFor(int64(c)), at(q.In[0]), at(q.In[1]), at(q.In[2]), at(q.Out), int32(c), float32(q.Attrs.(op.Eps).Eps))
	return w.kernel("norm_moments_grad")
}

// normGradSource returns the gradient of the result, operand n, that the backward pass
// of a fused normalisation reads: its address, the padded channels of its grid points,
// and whether eight channels can be read together.
func normGradSource(q backend.Request, n int) (dy device.Pointer, lanes, whole int32) {
	a, t := q.Attrs.(op.NormGrad), q.In[n]
	skip := a.Lo * t.Shape[2:].Size()
	if t.Layout == graph.ChannelsLast {
		skip = a.Lo
	}
	if t.Layout != graph.ChannelsLast || a.Lo%widthLast == 0 {
		whole = 1
	}
	return offset(t, skip), int32(t.Layout.PaddedChannels(t.Shape[1])), whole
}

// normFusedGrad prepares channel_norm_fused_grad.
//
//	dx = gamma·r·(dy − Σdy/n − x̂·Σ(dy·x̂)/n),  r = (variance + eps)^−½
//
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.
func normFusedGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	w, walk := &work{b: b}, newWalk(q.In[0], mapTurns)
	dy, lanes, whole := normGradSource(q, 4)
	var beta device.Pointer // null: not behind ReLU
	if q.Attrs.(op.NormGrad).ReLU {
		beta = at(q.In[5])
	}
	args := []any{at(q.In[0]), at(q.In[1]), at(q.In[2]), at(q.In[3]), dy, beta, at(q.Out)}
	args = append(append(args, walk.args()...), lanes, whole, float32(q.Attrs.(op.NormGrad).Eps), perValue(q.In[0]))
	w.call(channels(q.Out), "norm_fused_grad", walk.size, args...)
	return w.kernel("norm_fused_grad")
}

// sumsPerPart is the number of values of a part of a channel in scratch.
const sumsPerPart = 3

// channelParts returns a kernel of sums per channel in two calls: sums over parts of
// the grid points, and their sum in a fixed order. So results are reproducible.
func (b *Backend) channelParts(q backend.Request, name string, calls func(w *work, walk walk, parts device.Pointer, join device.Size)) (backend.Kernel, error) {
	walk := newWalk(q.In[0], sumTurns)
	return b.withScratch(name, walk.channels*walk.parts*sumsPerPart, func(w *work, scratch []float32) { calls(w, walk, start(scratch), walk.join()) })
}

// join returns the grid of a kernel that adds the parts of each channel.
func (w walk) join() device.Size {
	join := device.Size{Grid: [3]int{w.channels}, Block: [3]int{threads}}
	for join.Block[0] > 32 && join.Block[0]/2 >= w.parts {
		join.Block[0] /= 2
	}
	return join
}

// channelMoments prepares channel_moments: mean and variance (divisor: the count) of
// each channel over samples and grid points.
//
// Moments of parts are computed relative to the first value of the channel, so that a
// large mean does not cancel, and merged as in MergeMoments.
//
// Shape: x [N C …] → [2 C], means first.
func channelMoments(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.channelParts(q, "moments", func(w *work, walk walk, parts device.Pointer, join device.Size) {
		p, n := channels(q.In[0]), int32(walk.parts)
		w.call(p, "moments_parts", walk.size, append(append([]any{at(q.In[0]), parts}, walk.args()...), n)...)
		w.call(p, "moments_join", join, parts, at(q.In[0]), at(q.Out), int32(walk.channels), walk.points, n)
	})
}

// channelSum prepares channel_sum: Σ x over samples and grid points.
//
// Shape: x [N C …] → [C].
func channelSum(b *Backend, q backend.Request) (backend.Kernel, error) {
	return b.channelParts(q, "channel_sum", func(w *work, walk walk, parts device.Pointer, join device.Size) {
		p, n := channels(q.In[0]), int32(walk.parts)
		w.call(p, "channel_parts", walk.size, append(append([]any{at(q.In[0]), parts}, walk.args()...), n)...)
		w.call(p, "channel_join", join, parts, at(q.Out), n, int32(0))
	})
}

// channelNormSums prepares channel_norm_sums and channel_norm_fused_sums: Σ dy and Σ
// dy·x̂ of each channel, the gradients of beta and gamma, with x̂ the normalised x. In
// the fused form dy counts only where the normalisation is positive, behind ReLU.
//
// Shape: x, dy [N C …], moments [2 C] → [2 C].
func channelNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	a, ok := q.Attrs.(op.NormGrad)
	if !ok {
		a = op.NormGrad{Eps: q.Attrs.(op.Eps).Eps}
	}
	q.Attrs = a
	return b.channelParts(q, "norm_sums", func(w *work, walk walk, parts device.Pointer, join device.Size) {
		p, n := channels(q.In[0]), int32(walk.parts)
		dy, lanes, whole := normGradSource(q, 2)
		var gamma, beta device.Pointer // null: not behind ReLU
		if a.ReLU {
			gamma, beta = at(q.In[3]), at(q.In[4])
		}
		args := append([]any{at(q.In[0]), at(q.In[1]), dy, gamma, beta, parts}, walk.args()...)
		w.call(p, "norm_parts", walk.size, append(args, n, lanes, whole, float32(a.Eps))...)
		w.call(p, "norm_join", join, parts, at(q.In[1]), at(q.Out), int32(walk.channels), n, float32(a.Eps))
	})
}

// channelMapLayouts is the rule of operations on a field and plain numbers per channel.
func channelMapLayouts(_ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	return channelsLast(1, in, out, true)
}

// fieldLayouts is the rule of operations whose operands with five axes are all fields.
// The result is a field or a few plain numbers.
func fieldLayouts(_ any, in []graph.Shape, out graph.Shape) (backend.LayoutOption, bool) {
	w := backend.LayoutOption{In: make([]graph.Layout, len(in))}
	for i, s := range in {
		if len(s) == 5 {
			w.In[i] = graph.ChannelsLast
		}
	}
	if len(out) == 5 {
		w.Out = graph.ChannelsLast
	}
	return w, len(in) > 0 && len(in[0]) == 5
}
