package optim

import "math"

// loopSweeper is the sweep in plain Go; it also judges the kernels.
type loopSweeper struct{}

// norm is √Σg², summed in float64.
func (loopSweeper) norm(g []float32) float64 {
	var s float64
	for _, v := range g {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

// adam is one sweep of Adam or AdamW, in float32 as PyTorch computes it.
func (loopSweeper) adam(w, m, v, g []float32, a adamStep) {
	b1, b2 := float32(a.beta1), float32(a.beta2)
	c1, c2 := float32(1-a.beta1), float32(1-a.beta2)
	shrink := float32(1 - a.rate*a.decay)
	for i := range w {
		gi := float32(a.factor) * g[i]
		if a.coupled {
			gi += float32(a.decay) * w[i]
		} else {
			w[i] *= shrink
		}
		m[i] = b1*m[i] + c1*gi
		v[i] = b2*v[i] + c2*gi*gi
		root := float32(math.Sqrt(float64(v[i]) / a.correct2))
		w[i] -= float32(a.rate/a.correct1) * m[i] / (root + float32(a.eps))
	}
}
