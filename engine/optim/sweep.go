package optim

import "math"

// arena is the flat memory of a step, all in the layout of the store.
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

// loopSweeper is the sweep in plain Go; it also judges the kernels.
type loopSweeper struct{ tensors []tensor }

// norm is √Σg², summed in float64.
func (loopSweeper) norm(g []float32) float64 { return math.Sqrt(square(g)) }

func square(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// add is sum = sum + weight·g.
func (loopSweeper) add(sum, g []float32, weight float32) {
	for i, v := range g {
		sum[i] += weight * v
	}
}

// squares sums a² and b² of every tensor.
func (l loopSweeper) squares(out []norms, a, b []float32) {
	for k, t := range l.tensors {
		out[k] = norms{square(a[t.lo:t.hi]), square(b[t.lo:t.hi])}
	}
}

// moments is the first half of LAMB: m, v, and the sums of w² and u².
func (l loopSweeper) moments(out []norms, a *arena, s *step) {
	for k, t := range l.tensors {
		out[k] = norms{a: square(a.w[t.lo:t.hi])}
		for i := t.lo; i < t.hi; i++ {
			s.advance(a, i, float32(s.factor)*a.g[i])
			u := s.direction(a, i) + s.decay[k]*a.w[i]
			out[k].b += float64(u) * float64(u)
		}
	}
}

// advance moves the moments of Adam at i by the gradient g.
func (s *step) advance(a *arena, i int, g float32) {
	a.m[i] = float32(s.beta1)*a.m[i] + float32(1-s.beta1)*g
	a.v[i] = float32(s.beta2)*a.v[i] + float32(1-s.beta2)*g*g
}

// direction is the step of Adam at i before its rate.
func (s *step) direction(a *arena, i int) float32 {
	return a.m[i] / float32(s.correct1) / (float32(math.Sqrt(float64(a.v[i])/s.correct2)) + float32(s.eps))
}

// move is one sweep of any rule, in float32 as PyTorch computes it, and of the
// running average.
func (l loopSweeper) move(a *arena, s *step) {
	rate, momentum, factor := float32(s.rate), float32(s.momentum), float32(s.factor)
	for k, t := range l.tensors {
		decay, scaled := s.decay[k], rate*s.ratio[k]
		for i := t.lo; i < t.hi; i++ {
			w, g := a.w[i], factor*a.g[i]
			switch s.rule {
			case SGD:
				d := g + decay*w
				a.m[i] = momentum*a.m[i] + d
				if s.nesterov {
					w -= rate * (d + momentum*a.m[i])
				} else {
					w -= rate * a.m[i]
				}
			case Adam:
				s.advance(a, i, g+decay*w)
				w -= rate * s.direction(a, i)
			case AdamW:
				s.advance(a, i, g)
				w = w*(1-rate*decay) - rate*s.direction(a, i)
			case LARS:
				a.m[i] = momentum*a.m[i] + scaled*(g+decay*w)
				w -= a.m[i]
			case LAMB:
				w -= scaled * (s.direction(a, i) + decay*w)
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
