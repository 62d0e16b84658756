package dist

import (
	"fmt"
	"math"
	"testing"
)

// near fails unless got is within tol of want, absolute or relative.
func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > tol*max(1, math.Abs(want)) {
		t.Errorf("%s: got %.12g, want %.12g (tolerance %g)", what, got, want, tol)
	}
}

// The rows are those of the specification, checked there against numerical
// integration; ten digits are printed, hence the tolerance.
func TestNormalCRPSOracles(t *testing.T) {
	for _, c := range []struct{ mu, sigma, y, crps, dmu, dsigma float64 }{
		{0, 1, 0, 0.2336949773, 0, 0.2336949773},
		{0, 1, 1, 0.6024413576, -0.6826894921, -0.0802481345},
		{0, 1, -2, 1.4527918217, 0.9544997361, -0.4562076505},
		{1.5, 0.5, 2.25, 0.4972120020, -0.8663855975, -0.3051543922},
		{273.15, 1.2, 271.4, 1.1502650231, 0.8552513134, -0.2886873128},
		{0, 0.1, 3, 2.9435810416, -1, -0.5641895835},
		{55000, 80, 55120, 79.5539203182, -0.8663855975, -0.3051543922},
	} {
		name := fmt.Sprintf("N(%g,%g) at %g", c.mu, c.sigma, c.y)
		crps, dmu, dsigma := NormalCRPS(c.mu, c.sigma, c.y)
		near(t, name, crps, c.crps, 1e-9)
		near(t, name+" d/dmu", dmu, c.dmu, 1e-9)
		near(t, name+" d/dsigma", dsigma, c.dsigma, 1e-9)
	}
}

func TestNormalCRPSLimits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		why                             string
		mu, sigma, y, crps, dmu, dsigma float64
	}{
		{"point mass is the distance", 3, 0, 1, 2, 1, -invSqrtPi},
		{"point mass below", 1, 0, 3, 2, -1, -invSqrtPi},
		{"point mass hit", 1, 0, 1, 0, 0, 0.2336949773},
		{"subnormal sigma", 1, 5e-324, 3, 2, -1, -invSqrtPi},
		{"huge distance", 1e300, 1e-300, -1e300, 2e300, 1, -invSqrtPi},
		{"missing mean", nan, 1, 0, nan, nan, nan},
		{"missing sigma", 0, nan, 0, nan, nan, nan},
		{"missing observation", 0, 1, nan, nan, nan, nan},
		{"negative sigma", 0, -1, 0, nan, nan, nan},
	} {
		crps, dmu, dsigma := NormalCRPS(c.mu, c.sigma, c.y)
		near(t, c.why, crps, c.crps, 1e-9)
		near(t, c.why+" d/dmu", dmu, c.dmu, 1e-9)
		near(t, c.why+" d/dsigma", dsigma, c.dsigma, 1e-9)
	}
}

// The score is the integral of (F−1)²: trapezoids of width 1e-4 over ±12.
func TestNormalCRPSIsItsIntegral(t *testing.T) {
	const mu, sigma, y, h = 0.3, 0.8, 1.1, 1e-4
	var sum float64
	for x := -12.0; x < 12; x += h {
		f := NormalCDF((x + h/2 - mu) / sigma)
		if x+h/2 >= y {
			f--
		}
		sum += f * f * h
	}
	crps, _, _ := NormalCRPS(mu, sigma, y)
	near(t, "integral", crps, sum, 1e-4) // the step at y costs up to h/2
}

func TestNormalQuantileInvertsCDF(t *testing.T) {
	for _, z := range []float64{-37, -8, -2.5, -1, 0, 0.3, 1, 5} {
		// Above 0 the probability 1−p has lost digits: φ(5) against 1e-16.
		near(t, fmt.Sprint("quantile at z=", z), NormalQuantile(NormalCDF(z)), z, 1e-9)
	}
	near(t, "upper quartile", NormalQuantile(0.75), 0.6744897501960817, 1e-14)
	if !math.IsInf(NormalQuantile(0), -1) || !math.IsInf(NormalQuantile(1), 1) || !math.IsNaN(NormalQuantile(1.1)) {
		t.Error("limits of the quantile function")
	}
}

func ExampleNormalCRPS() {
	crps, dmu, dsigma := NormalCRPS(273.15, 1.2, 271.4) // K
	fmt.Printf("%.4f K, %.4f, %.4f\n", crps, dmu, dsigma)
	// Output: 1.1503 K, 0.8553, -0.2887
}

// Second derivatives by central differences of the first, step 1e-5.
func TestNormalCRPSCurvature(t *testing.T) {
	const h = 1e-5
	for _, c := range []struct{ mu, sigma, y float64 }{{0, 1, 0.3}, {1, 0.5, 2.2}, {-1, 3, 4}} {
		_, _, dsigma := NormalCRPS(c.mu, c.sigma, c.y)
		k, z := NormalCRPSCurvature(dsigma, c.sigma), (c.y-c.mu)/c.sigma
		_, m1, s1 := NormalCRPS(c.mu+h, c.sigma, c.y)
		_, m0, s0 := NormalCRPS(c.mu-h, c.sigma, c.y)
		near(t, "mu mu", (m1-m0)/(2*h), k, 1e-8)
		near(t, "mu sigma", (s1-s0)/(2*h), k*z, 1e-8)
		_, _, s1 = NormalCRPS(c.mu, c.sigma+h, c.y)
		_, _, s0 = NormalCRPS(c.mu, c.sigma-h, c.y)
		near(t, "sigma sigma", (s1-s0)/(2*h), k*z*z, 1e-8)
	}
}
