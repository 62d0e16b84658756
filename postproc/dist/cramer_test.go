package dist

import (
	"fmt"
	"math"
	"testing"
)

var cramerCases = []struct{ mu, sigma, mu2, sigma2 float64 }{
	{0, 1, 0, 1}, {0, 1, 0.3, 1}, {1, 0.5, -0.5, 2}, {-2, 1.5, 2, 0.25}, {0, 3, 0, 1},
}

// The distance is the integral of the squared difference of the distribution functions: trapezoids of width 1e-3 over ±20.
func TestNormalCramerIsTheIntegral(t *testing.T) {
	for _, c := range cramerCases {
		var sum float64
		const step = 1e-3
		for i := -20000; i <= 20000; i++ {
			x := float64(i) * step
			f := NormalCDF((x-c.mu)/c.sigma) - NormalCDF((x-c.mu2)/c.sigma2)
			sum += f * f * step
		}
		d, _, _ := NormalCramer(c.mu, c.sigma, c.mu2, c.sigma2)
		near(t, fmt.Sprint(c), d, sum, 1e-9)
	}
}

// It is the expected CRPS where observations have the second distribution, above that of the second distribution itself.
func TestNormalCramerIsExpectedCRPS(t *testing.T) {
	for _, c := range cramerCases {
		var sum float64
		const step = 1e-3
		for i := -9000; i <= 9000; i++ {
			z := float64(i) * step
			y := c.mu2 + c.sigma2*z
			mine, _, _ := NormalCRPS(c.mu, c.sigma, y)
			best, _, _ := NormalCRPS(c.mu2, c.sigma2, y)
			sum += (mine - best) * NormalPDF(z) * step
		}
		d, _, _ := NormalCramer(c.mu, c.sigma, c.mu2, c.sigma2)
		near(t, fmt.Sprint(c), d, sum, 1e-8)
		other, _, _ := NormalCramer(c.mu2, c.sigma2, c.mu, c.sigma)
		near(t, fmt.Sprint("the other way ", c), other, d, 1e-12)
	}
}

func TestNormalCramerDerivatives(t *testing.T) {
	for _, c := range cramerCases {
		_, dmu, dsigma := NormalCramer(c.mu, c.sigma, c.mu2, c.sigma2)
		const h = 1e-5
		of := func(mu, sigma float64) float64 {
			d, _, _ := NormalCramer(c.mu+mu, c.sigma+sigma, c.mu2, c.sigma2)
			return d
		}
		near(t, fmt.Sprint("d/dmu ", c), dmu, (of(h, 0)-of(-h, 0))/(2*h), 1e-9)
		near(t, fmt.Sprint("d/dsigma ", c), dsigma, (of(0, h)-of(0, -h))/(2*h), 1e-9)
	}
}

func TestNormalCramerLimits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		why                                    string
		mu, sigma, mu2, sigma2, d, dmu, dsigma float64
	}{
		{"equal", 2, 3, 2, 3, 0, 0, 0},
		{"two point masses", 3, 0, 1, 0, 2, 1, -invSqrtPi},
		{"one point mass", 3, 0, 3, 0, 0, 0, -invSqrtPi},
		{"a point mass as the second is the CRPS", 0, 1, 1, 0, 0.6024413576, -0.6826894921, -0.0802481345},
		{"missing", nan, 1, 0, 1, nan, nan, nan},
		{"negative", 0, 1, 0, -1, nan, nan, nan},
	} {
		d, dmu, dsigma := NormalCramer(c.mu, c.sigma, c.mu2, c.sigma2)
		near(t, c.why, d, c.d, 1e-9)
		near(t, c.why+" d/dmu", dmu, c.dmu, 1e-9)
		near(t, c.why+" d/dsigma", dsigma, c.dsigma, 1e-9)
	}
}
