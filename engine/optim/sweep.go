package optim

import "math"

// arena is the flat memory of a step. Parameters w and averages e have the layout of the store;
// gradients g and moments m and v have that of ChunkOffsets.
type arena struct {
	w, g, m []float32
	v       []float32 // second moment; nil for SGD and LARS
	e       []float32 // exponential moving average of w; nil for none
}

// step holds the constants of one sweep over the parameters.
type step struct {
	rule                              Kind
	nesterov                          bool
	rate, beta1, beta2, eps, momentum float64
	factor, correct1, correct2, blend float64   // factor of the gradient; bias corrections 1−β₁ᵗ and 1−β₂ᵗ; weight of w in e
	decay, ratio                      []float32 // weight decay and trust ratio, by tensor
}

// norms holds two sums of squares of one tensor: a of w, b of g, or of u for LAMB.
type norms struct{ a, b float64 }

// refSweeper is the sweep in plain Go. It is the reference for the C kernels, and runs where they
// are not available.
type refSweeper struct{ chunks []chunk }

// square is Σx², summed in float64.
func square(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// accumulate computes sum += weight·g.
func (refSweeper) accumulate(sum, g []float32, weight float32) {
	for i, v := range g {
		sum[i] += weight * v
	}
}

// squares computes Σw² and Σg² of every chunk, interleaved in part. With a nil w the first sum is
// 0.
func (l refSweeper) squares(part []float64, w, g []float32) {
	for k, p := range l.chunks {
		part[2*k], part[2*k+1] = 0, square(g[p.at:p.at+p.hi-p.lo])
		if w != nil {
			part[2*k] = square(w[p.lo:p.hi])
		}
	}
}

// moments is the first half of LAMB. It updates m and v, and computes Σw² and Σu² of every chunk,
// interleaved in part.
func (l refSweeper) moments(part []float64, a *arena, s *step) {
	for k, p := range l.chunks {
		part[2*k], part[2*k+1] = square(a.w[p.lo:p.hi]), 0
		for i := p.lo; i < p.hi; i++ {
			at := p.at + i - p.lo
			s.updateMoments(a, at, float32(s.factor)*a.g[at])
			u := s.update(a, at) + s.decay[p.tensor]*a.w[i]
			part[2*k+1] += float64(u) * float64(u)
		}
	}
}

// biasCorrection is Adam's 1−βᵗ for step t.
func biasCorrection(beta float64, t uint64) float64 { return 1 - math.Pow(beta, float64(t)) }

// updateMoments updates Adam's moments m and v at index i of the moments with the gradient g.
func (s *step) updateMoments(a *arena, i int, g float32) {
	a.m[i] = float32(s.beta1)*a.m[i] + float32(1-s.beta1)*g
	a.v[i] = float32(s.beta2)*a.v[i] + float32(1-s.beta2)*g*g
}

// update is Adam's update at index i of the moments, before multiplication with the rate:
// m̂/(√v̂ + eps).
func (s *step) update(a *arena, i int) float32 {
	return a.m[i] / float32(s.correct1) / (float32(math.Sqrt(float64(a.v[i])/s.correct2)) + float32(s.eps))
}

// apply applies one step of any rule, in float32 as PyTorch does, and updates the moving average.
func (l refSweeper) apply(a *arena, s *step) {
	rate, momentum, factor := float32(s.rate), float32(s.momentum), float32(s.factor)
	for _, t := range l.chunks {
		decay, scaled := s.decay[t.tensor], rate*s.ratio[t.tensor]
		for i := t.lo; i < t.hi; i++ {
			at := t.at + i - t.lo
			w, g := a.w[i], factor*a.g[at]
			switch s.rule {
			case SGD:
				d := g + decay*w
				a.m[at] = momentum*a.m[at] + d
				if s.nesterov {
					w -= rate * (d + momentum*a.m[at])
				} else {
					w -= rate * a.m[at]
				}
			case Adam:
				s.updateMoments(a, at, g+decay*w)
				w -= rate * s.update(a, at)
			case AdamW:
				s.updateMoments(a, at, g)
				w = w*(1-rate*decay) - rate*s.update(a, at)
			case LARS:
				a.m[at] = momentum*a.m[at] + scaled*(g+decay*w)
				w -= a.m[at]
			case LAMB:
				w -= scaled * (s.update(a, at) + decay*w)
			}
			a.w[i] = w
		}
		a.blend(t.lo, t.hi, s.blend)
	}
}

// blend moves the averages of the parameters lo to hi towards them, with the weight of the present values.
func (a *arena) blend(lo, hi int, weight float64) {
	switch {
	case a.e == nil:
	case weight == 1:
		copy(a.e[lo:hi], a.w[lo:hi])
	default:
		for i := lo; i < hi; i++ {
			a.e[i] += float32(weight) * (a.w[i] - a.e[i])
		}
	}
}
