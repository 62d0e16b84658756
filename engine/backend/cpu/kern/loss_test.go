//go:build cgo && linux

package kern

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

func TestGaussianCRPS(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, n := range lengths {
			mu, sigma, y := random(1, n, -3, 3), random(2, n, 0.05, 3), random(3, n, -6, 6)
			if n > 20 { // a point mass off, on; impossible; missing
				sigma[0], sigma[1], sigma[2], mu[3] = 0, 0, -1, float32(math.NaN())
				y[1] = mu[1]
			}
			out := make([][]float32, 4)
			oks := make([]func(), 4)
			for i := range out {
				out[i], oks[i] = guarded(t, n)
			}
			p.GaussianCRPS(out[0], out[1], out[2], out[3], mu, sigma, y)
			for _, ok := range oks {
				ok()
			}
			for i := range mu {
				c, dmu, g := dist.NormalCRPS(float64(mu[i]), float64(sigma[i]), float64(y[i]))
				near(t, "crps", i, out[0][i], c, 1e-6)
				near(t, "dmu", i, out[1][i], dmu, 1e-6)
				near(t, "dy", i, out[3][i], -dmu, 1e-6)
				// dsigma passes through zero near |z| = 0.8326: absolute there.
				if d := math.Abs(float64(out[2][i]) - g); d > 1e-7 || (d != d) != (g != g) {
					t.Fatalf("dsigma[%d]: got %g, want %g", i, out[2][i], g)
				}
			}
			only := make([]float32, n)
			p.GaussianCRPS(only, nil, nil, nil, mu, sigma, y)
			for i := range only {
				if math.Float32bits(only[i]) != math.Float32bits(out[0][i]) {
					t.Fatalf("crps alone [%d]: got %g, with gradients %g", i, only[i], out[0][i])
				}
			}
		}
	})
}

func TestAdam(t *testing.T) {
	everywhere(t, func(t *testing.T, p *Pool) {
		for _, s := range []AdamStep{
			{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Correct1: 0.1, Correct2: 1e-3},
			{LR: 1e-2, Beta1: 0.8, Beta2: 0.99, Eps: 1e-6, Decay: 0.1, Correct1: 0.36, Correct2: 0.02, GradScale: 0.25},
			{LR: 1e-2, Beta1: 0.8, Beta2: 0.99, Eps: 1e-6, Decay: 0.1, Coupled: true, Correct1: 0.36, Correct2: 0.02},
		} {
			for _, n := range lengths {
				w0, m0, v0, g := random(1, n, -2, 2), random(2, n, -1, 1), random(3, n, 0.1, 1), random(4, n, -1, 1)
				w, okW := guarded(t, n)
				m, okM := guarded(t, n)
				v, okV := guarded(t, n)
				copy(w, w0)
				copy(m, m0)
				copy(v, v0)
				p.Adam(w, m, v, g, s)
				okW()
				okM()
				okV()
				for i := range w {
					scale, decay := float64(s.GradScale), float64(s.Decay)
					if scale == 0 {
						scale = 1
					}
					d, old := scale*float64(g[i]), float64(w0[i])
					if s.Coupled {
						d += decay * old
					} else {
						old -= float64(s.LR) * decay * old
					}
					mm := float64(s.Beta1)*float64(m0[i]) + (1-float64(s.Beta1))*d
					vv := float64(s.Beta2)*float64(v0[i]) + (1-float64(s.Beta2))*d*d
					ww := old - float64(s.LR)*(mm/float64(s.Correct1))/(math.Sqrt(vv/float64(s.Correct2))+float64(s.Eps))
					for what, c := range map[string][2]float64{"w": {float64(w[i]), ww}, "m": {float64(m[i]), mm}, "v": {float64(v[i]), vv}} {
						if math.Abs(c[0]-c[1]) > 1e-6*(0.1+math.Abs(c[1])) {
							t.Fatalf("%s[%d]: got %g, want %g", what, i, c[0], c[1])
						}
					}
				}
			}
		}
	})
}
