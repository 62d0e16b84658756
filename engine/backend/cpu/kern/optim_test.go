//go:build cgo && linux

package kern

import (
	"math"
	"testing"
)

// optJudge is one step of a rule in float64 on one value; the same formulas as
// OptStep's comment.
func optJudge(s OptStep, decay, ratio, w, m, v, g float64) (w1, m1, v1, u float64) {
	lr, mu := float64(s.LR), float64(s.Momentum)
	g *= float64(s.GradScale)
	adam := func(d float64) {
		m1 = s.Beta1*m + (1-s.Beta1)*d
		v1 = s.Beta2*v + (1-s.Beta2)*d*d
		u = m1 / float64(s.Correct1) / (math.Sqrt(v1/float64(s.Correct2)) + float64(s.Eps))
	}
	v1 = v
	switch s.Rule {
	case RuleSGD:
		m1 = mu*m + g + decay*w
		w1 = w - lr*m1
	case RuleNesterov:
		m1 = mu*m + g + decay*w
		w1 = w - lr*(g+decay*w+mu*m1)
	case RuleAdam:
		adam(g + decay*w)
		w1 = w - lr*u
	case RuleAdamW:
		adam(g)
		w1 = w - lr*decay*w - lr*u
	case RuleLARS:
		m1 = mu*m + lr*ratio*(g+decay*w)
		w1 = w - m1
	case RuleLAMB:
		adam(g)
		u += decay * w
		w1 = w - lr*ratio*u
	}
	return w1, m1, v1, u
}

// piecesOf cuts tensors, given by their first elements and ends, into pieces of at most
// the given number of elements; their gradients and moments lie shift elements before them.
func piecesOf(tensors [][2]int, most, shift int) []ParamRange {
	var out []ParamRange
	for i, t := range tensors {
		for lo := t[0]; lo < t[1]; lo += most {
			out = append(out, ParamRange{lo, min(lo+most, t[1]), i, lo - shift})
		}
	}
	return out
}

// TestOpt: every rule against float64, on tensors of all lengths with gaps between
// them, which stay as they are, and moments that lie elsewhere.
func TestOpt(t *testing.T) {
	var tensors [][2]int
	const shift = 3
	n := shift
	for _, l := range lengths {
		tensors = append(tensors, [2]int{n, n + l})
		n += l + 5
	}
	pieces := piecesOf(tensors, 16384, shift)
	everywhere(t, func(t *testing.T, p *Pool) {
		for rule := RuleSGD; rule <= RuleLAMB; rule++ {
			for _, blend := range []float32{0.25, 1} {
				s := OptStep{Rule: rule, LR: 1e-2, Beta1: 0.8, Beta2: 0.99, Eps: 1e-6, Momentum: 0.9, GradScale: 0.25, EMAWeight: blend, Correct1: 0.36, Correct2: 0.02}
				for i := range tensors {
					s.Decay, s.Ratio = append(s.Decay, 0.1*float32(i)), append(s.Ratio, 1+float32(i))
				}
				was := OptArena{W: random(1, n, -2, 2), M: random(2, n, -1, 1), V: random(3, n, 0.1, 1), E: random(5, n, -2, 2), G: random(4, n, -1, 1)}
				a := OptArena{G: was.G}
				var oks []func()
				for _, x := range []struct {
					to   *[]float32
					from []float32
				}{{&a.W, was.W}, {&a.M, was.M}, {&a.V, was.V}, {&a.E, was.E}} {
					v, ok := guarded(t, n)
					copy(v, x.from)
					*x.to = v
					oks = append(oks, ok)
				}
				part, norms := make([]float64, 2*len(pieces)), make([]float64, len(tensors))
				if rule == RuleLAMB {
					p.OptMoments(part, pieces, &a, &s)
					for i, q := range pieces {
						norms[q.Tensor] += part[2*i+1]
					}
				}
				p.OptUpdate(pieces, &a, &s)
				for _, ok := range oks {
					ok()
				}
				at := 0
				for k, x := range tensors {
					for ; at < x[0]; at++ {
						if a.W[at] != was.W[at] || at >= shift && a.M[at-shift] != was.M[at-shift] || a.E[at] != was.E[at] {
							t.Fatalf("rule %d: the gap at %d was written", rule, at)
						}
					}
					var norm float64
					for ; at < x[1]; at++ {
						w, m, v, u := optJudge(s, float64(s.Decay[k]), float64(s.Ratio[k]), float64(was.W[at]), float64(was.M[at-shift]), float64(was.V[at-shift]), float64(was.G[at-shift]))
						norm += u * u
						e := float64(was.E[at]) + float64(blend)*(w-float64(was.E[at]))
						for what, c := range map[string][2]float64{"w": {float64(a.W[at]), w}, "m": {float64(a.M[at-shift]), m}, "v": {float64(a.V[at-shift]), v}, "e": {float64(a.E[at]), e}} {
							if math.Abs(c[0]-c[1]) > 1e-6*(0.5+math.Abs(c[1])) {
								t.Fatalf("rule %d, %s[%d]: got %g, want %g", rule, what, at, c[0], c[1])
							}
						}
					}
					if rule == RuleLAMB && math.Abs(norms[k]-norm) > 1e-5*norm {
						t.Errorf("tensor %d: sum of u² %g, want %g", k, norms[k], norm)
					}
				}
			}
		}
	})
}

// TestOptSquares: the sums of the pieces are those of the tensors, to float64.
func TestOptSquares(t *testing.T) {
	const shift = 3
	tensors := [][2]int{{shift, 40001}, {40010, 40011}, {40012, 40050}}
	pieces := piecesOf(tensors, 16384, shift)
	x, y := random(1, 40050, -2, 2), random(2, 40050-shift, -1, 3)
	everywhere(t, func(t *testing.T, p *Pool) {
		part, got := make([]float64, 2*len(pieces)), make([][2]float64, len(tensors))
		p.OptSquares(part, pieces, x, y)
		for i, q := range pieces {
			got[q.Tensor][0] += part[2*i]
			got[q.Tensor][1] += part[2*i+1]
		}
		alone := make([]float64, len(part))
		p.OptSquares(alone, pieces, nil, y)
		for i := range pieces {
			if alone[2*i] != 0 || alone[2*i+1] != part[2*i+1] {
				t.Errorf("piece %d: %g and %g without w, %g with it", i, alone[2*i], alone[2*i+1], part[2*i+1])
			}
		}
		for k, r := range tensors {
			var want [2]float64
			for i := r[0]; i < r[1]; i++ {
				want[0] += float64(x[i]) * float64(x[i])
				want[1] += float64(y[i-shift]) * float64(y[i-shift])
			}
			for i := range want {
				if math.Abs(got[k][i]-want[i]) > 1e-12*want[i] {
					t.Errorf("tensor %d: %v, want %v", k, got[k], want)
				}
			}
		}
	})
}
