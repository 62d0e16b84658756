//go:build cgo && linux

package cpu

import (
	"math"

	"github.com/ensemble-weather/ensemble/engine/backend"
	"github.com/ensemble-weather/ensemble/engine/backend/cpu/kern"
	"github.com/ensemble-weather/ensemble/engine/graph"
	"github.com/ensemble-weather/ensemble/engine/op"
)

// channels sees a value [N C …] as the axes batch, channel, place.
func channels(s graph.Shape) kern.Dims {
	return kern.Dims{Outer: s[0], Mid: s[1], Inner: s[2:].Size()}
}

// bias serves bias.
func bias(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, c, y, d := q.In[0].F32, q.In[1].F32, q.Out.F32, channels(q.Out.Shape)
	return kernel("broadcast", func() { b.pool.Broadcast(kern.Add, y, x, c, d, 0, 1, 0) })
}

// channelSum serves channel_sum.
func channelSum(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, channels(q.In[0].Shape)
	return kernel("sum_mid", func() { b.pool.SumMid(y, x, nil, d) })
}

// sum serves sum: over everything, or over one or two groups of axes that the
// kernels know; other patterns take the loop of the definition.
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

// channelMoments serves channel_moments.
func channelMoments(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, y, d := q.In[0].F32, q.Out.F32, channels(q.In[0].Shape)
	return kernel("moments_mid", func() { b.pool.MomentsMid(y[:d.Mid], y[d.Mid:], x, d) })
}

// momentsLine is 2·dvar/n·x + (dmean − 2·mean·dvar)/n per channel.
func momentsLine(slope, shift, mom, dmom []float32, n float64) {
	for k, c := 0, len(slope); k < c; k++ {
		dm, dv := float64(dmom[k]), float64(dmom[c+k])
		slope[k] = float32(2 * dv / n)
		shift[k] = float32((dm - 2*float64(mom[k])*dv) / n)
	}
}

// normLine is (x − mean)/√(variance + eps)·gamma + beta per channel.
func normLine(slope, shift, mom, gamma, beta []float32, eps float64) {
	for k, c := 0, len(slope); k < c; k++ {
		r := float64(gamma[k]) / math.Sqrt(float64(mom[c+k])+eps)
		slope[k] = float32(r)
		shift[k] = float32(float64(beta[k]) - float64(mom[k])*r)
	}
}

// normDots turns Σ dy·x of each channel into r·(Σ dy·x − mean·Σ dy), r = (variance + eps)^−½.
func normDots(y, mom []float32, eps float64, c int) {
	sums, dots := y[:c], y[c:]
	for k := range c {
		r := 1 / math.Sqrt(float64(mom[c+k])+eps)
		dots[k] = float32(r * (float64(dots[k]) - float64(mom[k])*float64(sums[k])))
	}
}

// channelMomentsGrad serves channel_moments_grad as a straight line per
// channel: 2·dvar/n·x + (dmean − 2·mean·dvar)/n.
func channelMomentsGrad(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, mom, dmom, y, d := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.Out.F32, channels(q.Out.Shape)
	slope, shift := make([]float32, d.Mid), make([]float32, d.Mid)
	n := float64(d.Outer * d.Inner)
	return kernel("affine_mid", func() {
		momentsLine(slope, shift, mom, dmom, n)
		b.pool.AffineMid(y, x, slope, shift, d)
	})
}

// channelNorm serves channel_norm as a straight line per channel.
func channelNorm(b *Backend, q backend.Request) (backend.Kernel, error) {
	x, mom, gamma, beta, y := q.In[0].F32, q.In[1].F32, q.In[2].F32, q.In[3].F32, q.Out.F32
	d, eps := channels(q.Out.Shape), q.Attrs.(op.Eps).Eps
	slope, shift := make([]float32, d.Mid), make([]float32, d.Mid)
	return kernel("affine_mid", func() {
		normLine(slope, shift, mom, gamma, beta, eps)
		b.pool.AffineMid(y, x, slope, shift, d)
	})
}

// channelNormSums serves channel_norm_sums: Σ dy and r·(Σ dy·x − mean·Σ dy).
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
