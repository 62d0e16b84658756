//go:build cgo && linux

package cpu

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// channels describes a value [N C …] as three axes: sample, channel, grid point.
func channels(s graph.Shape) kern.Dims {
	return kern.Dims{Outer: s[0], Mid: s[1], Inner: s[2:].Size()}
}

// bias prepares bias: x + b[c].
func bias(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, c, y, d := q.In[0].F32, q.In[1].F32, q.Out.F32, channels(q.Out.Shape)
	return kernel("broadcast", func() { b.pool.Broadcast(kern.Add, y, x, c, d, 0, 1, 0) })
}

// channelSum prepares channel_sum: y[c] = Σ x over samples and grid points.
func channelSum(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, channels(q.In[0].Shape)
	return kernel("sum_mid", func() { b.pool.SumMid(y, x, nil, d) })
}

// sum prepares sum over a set of axes. Adjacent axes that are both kept or both summed
// are merged; patterns with at most three merged axes have a kernel, others run a loop
// with float64 sums.
//
// In the patterns below, s is a summed axis and k a kept one, outermost first.
func sum(b *Backend, q backend.Request) (backend.Kernel, error) {
	r := op.PlanSum(q.In[0].Shape, q.Attrs.(op.Axes))
	x, y := q.In[0].F32, q.Out.F32
	pattern := ""
	for _, s := range r.Summed {
		pattern += map[bool]string{true: "s", false: "k"}[s]
	}
	axis := func(outer, mid, inner int) (backend.Kernel, error) {
		d := kern.Dims{Outer: outer, Mid: mid, Inner: inner}
		return kernel("sum_axis", func() { b.pool.SumAxis(y, x, 1, d) })
	}
	switch pattern {
	case "s":
		return kernel("sum", func() { y[0] = float32(b.pool.Sum(x)) })
	case "", "k":
		return kernel("copy", func() { copy(y, x) })
	case "ks":
		return axis(r.Dims[0], r.Dims[1], 1)
	case "sk":
		return axis(1, r.Dims[0], r.Dims[1])
	case "ksk":
		return axis(r.Dims[0], r.Dims[1], r.Dims[2])
	case "sks":
		d := kern.Dims{Outer: r.Dims[0], Mid: r.Dims[1], Inner: r.Dims[2]}
		return kernel("sum_mid", func() { b.pool.SumMid(y, x, nil, d) })
	}
	acc := make([]float64, len(y))
	return kernel("loop", func() {
		op.Sums(r, x, acc)
		for i, v := range acc {
			y[i] = float32(v)
		}
	})
}

// channelMoments prepares channel_moments: mean and variance (divisor: the count) of
// each channel.
//
// Shape: x [N C …] → y [2 C], means first.
func channelMoments(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, channels(q.In[0].Shape)
	return kernel("moments_mid", func() { b.pool.MomentsMid(y[:d.Mid], y[d.Mid:], x, d) })
}

// momentsLine computes the coefficients of the gradient of mean m and variance v with
// respect to x, per channel with n values:
//
//	dx = slope·x + shift,  slope = 2·dv/n,  shift = (dm − 2·m·dv)/n
func momentsLine(slope, shift, mom, dmom []float32, n float64) {
	for k, c := 0, len(slope); k < c; k++ {
		dm, dv := float64(dmom[k]), float64(dmom[c+k])
		slope[k] = float32(2 * dv / n)
		shift[k] = float32((dm - 2*float64(mom[k])*dv) / n)
	}
}

// normLine computes the coefficients of a normalisation per channel:
//
//	(x − mean)/√(variance + eps)·gamma + beta = slope·x + shift
func normLine(slope, shift, mom, gamma, beta []float32, eps float64) {
	for k, c := 0, len(slope); k < c; k++ {
		r := float64(gamma[k]) / math.Sqrt(float64(mom[c+k])+eps)
		slope[k] = float32(r)
		shift[k] = float32(float64(beta[k]) - float64(mom[k])*r)
	}
}

// normDots completes the sums of the backward pass of a normalisation. On entry y holds
// Σ dy and Σ dy·x of c channels; the second becomes
//
//	r·(Σ dy·x − mean·Σ dy),  r = (variance + eps)^−½
//
// which is Σ dy·x̂, with x̂ the normalised x: the gradient of gamma.
func normDots(y, mom []float32, eps float64, c int) {
	sums, dots := y[:c], y[c:]
	for k := range c {
		r := 1 / math.Sqrt(float64(mom[c+k])+eps)
		dots[k] = float32(r * (float64(dots[k]) - float64(mom[k])*float64(sums[k])))
	}
}

// normLines are the coefficients per channel of channel_norm_fused_grad.
//
//	dx = dyFactor·dy + xFactor·x + shift
//
// With r = (variance + eps)^−½, x̂ = (x − mean)·r and n values per channel this is
//
//	dx = gamma·r·(dy − Σdy/n − x̂·Σ(dy·x̂)/n)
//
// Source: Ioffe and Szegedy 2015, arXiv:1502.03167, section 3.
type normLines struct {
	dyFactor, xFactor, shift []float32
	mom, gamma, sums         []float32
	eps, n                   float64 // values of a channel
}

// newNormLines allocates the coefficients of a request.
func newNormLines(q backend.Request) *normLines {
	c := q.Out.Shape[1]
	return &normLines{make([]float32, c), make([]float32, c), make([]float32, c), q.In[1].F32, q.In[2].F32, q.In[3].F32,
		q.Attrs.(op.NormGrad).Eps, float64(q.Out.Shape.Size() / c)}
}

// fill computes the coefficients; it is called before each run.
func (l *normLines) fill() {
	for k, c := 0, len(l.dyFactor); k < c; k++ {
		r := 1 / math.Sqrt(float64(l.mom[c+k])+l.eps)
		factor := float64(l.gamma[k]) * r
		along := -factor * r * float64(l.sums[c+k]) / l.n
		l.dyFactor[k], l.xFactor[k] = float32(factor), float32(along)
		l.shift[k] = float32(-factor*float64(l.sums[k])/l.n - along*float64(l.mom[k]))
	}
}

// normGate is where a normalisation in front of ReLU is positive, for its backward pass; empty without ReLU.
type normGate struct {
	kern.Gate
	mom, gamma, beta []float32
	eps              float64
}

// newNormGate allocates the gate of a request. gamma and beta are the numbers of operands.
func newNormGate(q backend.Request, gamma, beta int) *normGate {
	a, c := q.Attrs.(op.NormGrad), q.In[0].Shape[1]
	if !a.ReLU {
		return &normGate{}
	}
	return &normGate{kern.Gate{Scale: make([]float32, c), Shift: make([]float32, c)}, q.In[1].F32, q.In[gamma].F32, q.In[beta].F32, a.Eps}
}

// fill computes the coefficients, those of the forward pass; it is called before each run.
func (g *normGate) fill() {
	if g.Scale != nil {
		normLine(g.Scale, g.Shift, g.mom, g.gamma, g.beta, g.eps)
	}
}

// affineMid prepares y = slope[c]·x + shift[c]. fill computes slope and shift before
// each run.
func affineMid(b *Backend, q backend.Request, fill func(slope, shift []float32)) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, channels(q.Out.Shape)
	slope, shift := make([]float32, d.Mid), make([]float32, d.Mid)
	return kernel("affine_mid", func() {
		fill(slope, shift)
		b.pool.AffineMid(y, x, slope, shift, d)
	})
}

// channelMomentsGrad prepares channel_moments_grad (momentsLine).
func channelMomentsGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return affineMid(b, q, momentsGradFill(q))
}

// channelNorm prepares channel_norm (normLine).
func channelNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	return affineMid(b, q, normFill(q))
}

// channelNormGrad prepares channel_norm_grad, the direct part of the gradient with the
// moments held constant: dx = gamma·r·dy.
func channelNormGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	return affineMid(b, q, normGradFill(q))
}

// momentsGradFill returns the function that computes the coefficients of
// channel_moments_grad.
func momentsGradFill(q backend.Request) func(slope, shift []float32) {
	mom, dmom := q.In[1].F32, q.In[2].F32
	n := float64(q.Out.Shape.Size() / q.Out.Shape[1])
	return func(slope, shift []float32) { momentsLine(slope, shift, mom, dmom, n) }
}

// normFill returns the function that computes the coefficients of channel_norm.
func normFill(q backend.Request) func(slope, shift []float32) {
	mom, gamma, beta, eps := q.In[1].F32, q.In[2].F32, q.In[3].F32, q.Attrs.(op.Eps).Eps
	return func(slope, shift []float32) { normLine(slope, shift, mom, gamma, beta, eps) }
}

// normGradFill returns the function that computes the coefficients of
// channel_norm_grad.
func normGradFill(q backend.Request) func(slope, shift []float32) {
	mom, gamma, eps := q.In[1].F32, q.In[2].F32, q.Attrs.(op.Eps).Eps
	return func(slope, _ []float32) {
		for k := range slope {
			slope[k] = float32(float64(gamma[k]) / math.Sqrt(float64(mom[len(slope)+k])+eps))
		}
	}
}

// normMomentsGrad prepares channel_norm_moments_grad: the gradient with respect to mean
// and variance.
func normMomentsGrad(_ *Backend, q backend.Request) (backend.Kernel, error) {
	mom, gamma, sums, y, eps := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32, q.Attrs.(op.Eps).Eps
	return kernel("loop", func() { op.NormMomentsGrad(y, mom, gamma, sums, eps) })
}

// channelNormSums prepares channel_norm_sums: Σ dy and Σ dy·x̂ of each channel
// (normDots), the gradients of beta and gamma.
func channelNormSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, mom, dy, y := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32
	d, eps := channels(q.In[0].Shape), q.Attrs.(op.Eps).Eps
	return kernel("sum_mid", func() {
		sums, dots := y[:d.Mid], y[d.Mid:]
		b.pool.SumMid(sums, dy, nil, d)
		b.pool.SumMid(dots, dy, x, d)
		normDots(y, mom, eps, d.Mid)
	})
}

// normFused prepares channel_norm_fused: normalisation followed by ReLU.
func normFused(b *Backend, q backend.Request) (backend.Kernel, error) {
	line, err := channelNorm(b, q)
	y := q.Out.F32
	return backend.Kernel{Name: "affine_mid, unary", Run: func() error {
		if err := line.Run(); err != nil {
			return err
		}
		b.pool.Unary(kern.ReLU, y, y)
		return nil
	}}, err
}

// normSource returns a function that gives the gradient of the result, operand n, as
// the backward pass of a fused normalisation reads it: a range of channels, in place
// or, behind ReLU, gated in scratch.
func normSource(b *Backend, q backend.Request, n int, gate *normGate) func() []float32 {
	x := q.In[0]
	lo, size := q.Attrs.(op.NormGrad).Lo*x.Shape[2:].Size(), len(x.F32)
	dy := q.In[n].F32[lo : lo+size]
	if gate.Scale == nil {
		return func() []float32 { return dy }
	}
	b.needScratch(size)
	return func() []float32 {
		gate.fill()
		y := b.scratch[:size]
		b.pool.AffineMid(y, x.F32, gate.Scale, gate.Shift, channels(x.Shape))
		b.pool.UnaryGrad(kern.ReLU, y, dy, y, y)
		return y
	}
}

// normFusedSums prepares channel_norm_fused_sums: channelNormSums of the gated
// gradient.
func normFusedSums(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, mom, y := q.In[0].F32, q.In[1].F32, q.Out.F32
	d, eps, source := channels(q.In[0].Shape), q.Attrs.(op.NormGrad).Eps, normSource(b, q, 2, newNormGate(q, 3, 4))
	return kernel("sum_mid", func() {
		dy := source()
		b.pool.SumMid(y[:d.Mid], dy, nil, d)
		b.pool.SumMid(y[d.Mid:], dy, x, d)
		normDots(y, mom, eps, d.Mid)
	})
}

// normFusedGrad prepares channel_norm_fused_grad (normLines).
func normFusedGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d, source, lines := q.In[0].F32, q.Out.F32, channels(q.Out.Shape), normSource(b, q, 4, newNormGate(q, 2, 5)), newNormLines(q)
	return kernel("combine_mid", func() {
		lines.fill()
		b.pool.CombineMid(y, source(), x, lines.dyFactor, lines.xFactor, lines.shift, d)
	})
}
