package optim

import "math"

// arena is the flat memory of a step: w and e in the layout of the store, gradients and
// moments where pieces have them.
type arena struct {
	w, g, m []float32
	v       []float32 // nil without a second moment
	e       []float32 // running average of w, nil without one
}

// step holds the constants of one sweep.
type step struct {
	rule                              Kind
	nesterov                          bool
	rate, beta1, beta2, eps, momentum float64
	factor, correct1, correct2, blend float64   // of the gradient; 1−βᵗ; share of w in e
	decay, ratio                      []float32 // by tensor
}

// norms are the sums of squares of one tensor's values in two arrays.
type norms struct{ a, b float64 }

// refSweeper is the sweep in plain Go; it also judges the kernels.
type refSweeper struct{ chunks []chunk }

func square(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// accumulate is sum = sum + weight·g.
func (refSweeper) accumulate(sum, g []float32, weight float32) {
	for i, v := range g {
		sum[i] += weight * v
	}
}

// squares sums w² and g² of every piece, in turns; without a w, which is nil then, 0
// for w².
func (l refSweeper) squares(part []float64, w, g []float32) {
	for k, p := range l.chunks {
		part[2*k], part[2*k+1] = 0, square(g[p.at:p.at+p.hi-p.lo])
		if w != nil {
			part[2*k] = square(w[p.lo:p.hi])
		}
	}
}

// moments is the first half of LAMB: m, v, and in turns the sums of w² and u² of every
// piece.
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

// updateMoments moves the moments of Adam at i, which count as moments lie, by the gradient g.
func (s *step) updateMoments(a *arena, i int, g float32) {
	a.m[i] = float32(s.beta1)*a.m[i] + float32(1-s.beta1)*g
	a.v[i] = float32(s.beta2)*a.v[i] + float32(1-s.beta2)*g*g
}

// update is the step of Adam at i before its rate.
func (s *step) update(a *arena, i int) float32 {
	return a.m[i] / float32(s.correct1) / (float32(math.Sqrt(float64(a.v[i])/s.correct2)) + float32(s.eps))
}

// apply is one sweep of any rule, in float32 as PyTorch computes it, and of the
// running average.
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
		switch {
		case a.e == nil:
		case s.blend == 1:
			copy(a.e[t.lo:t.hi], a.w[t.lo:t.hi])
		default:
			for i := t.lo; i < t.hi; i++ {
				a.e[i] += float32(s.blend) * (a.w[i] - a.e[i])
			}
		}
	}
}
