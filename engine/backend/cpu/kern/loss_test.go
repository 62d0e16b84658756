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
