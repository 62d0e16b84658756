package dist

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// The golden rows come from scoringrules and mpmath (testdata/truncnormal.py).
func TestTruncatedNormalCRPSGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/truncnormal.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Mu, Sigma, Y, CRPS, DMu, DSigma float64 }
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) < 10 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, c := range rows {
		name := fmt.Sprintf("N0(%g,%g) at %g", c.Mu, c.Sigma, c.Y)
		crps, dmu, dsigma := TruncatedNormalCRPS(c.Mu, c.Sigma, c.Y)
		near(t, name, crps, c.CRPS, 1e-10)
		near(t, name+" d/dmu", dmu, c.DMu, 1e-9)
		near(t, name+" d/dsigma", dsigma, c.DSigma, 1e-9)
	}
}

// Far below 0 the exponential form takes over: value and gradients must agree
// with the other form on both sides of the switch to the stated 1e-5 or so.
func TestTruncatedNormalCRPSFarBelow(t *testing.T) {
	rel := func(what string, got, want, tol float64) {
		t.Helper()
		if math.Abs(got-want) > tol*math.Abs(want) {
			t.Errorf("%s: got %g, want %g within %g", what, got, want, tol)
		}
	}
	for _, y := range []float64{0.001, 0.02, 1} {
		a, amu, asig := TruncatedNormalCRPS(-299.999, 1, y)
		b, bmu, bsig := exponentialLimit(-299.999, 1, y)
		rel("crps", a, b, 5e-5)
		rel("d/dmu", amu, bmu, 1e-4)
		rel("d/dsigma", asig, bsig, 1e-4)
	}
	if c, _, _ := TruncatedNormalCRPS(-1e6, 1e-3, 2); math.Abs(c-2) > 1e-9 {
		t.Errorf("mass at 0: %g, want 2", c)
	}
}

func TestTruncatedNormalCRPSLimits(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		why                             string
		mu, sigma, y, crps, dmu, dsigma float64
	}{
		{"point mass", 3, 0, 1, 2, 1, -invSqrtPi},
		{"point mass at the bound", -3, 0, 1, 1, 0, 0},
		{"observation below the bound adds its distance", -3, 0, -1, 1, 0, 0},
		{"subnormal sigma", 3, 5e-324, 1, 2, 1, -invSqrtPi},
		{"missing", nan, 1, 1, nan, nan, nan},
		{"negative sigma", 1, -1, 1, nan, nan, nan},
	} {
		crps, dmu, dsigma := TruncatedNormalCRPS(c.mu, c.sigma, c.y)
		near(t, c.why, crps, c.crps, 1e-12)
		near(t, c.why+" d/dmu", dmu, c.dmu, 1e-12)
		near(t, c.why+" d/dsigma", dsigma, c.dsigma, 1e-12)
	}
	// Far above 0 nothing is cut off: the plain normal.
	c, m, s := TruncatedNormalCRPS(50, 2, 51)
	nc, nm, ns := NormalCRPS(50, 2, 51)
	near(t, "untruncated", c, nc, 1e-13)
	near(t, "untruncated d/dmu", m, nm, 1e-13)
	near(t, "untruncated d/dsigma", s, ns, 1e-13)
}

func TestTruncatedNormalQuantileInvertsCDF(t *testing.T) {
	for _, mu := range []float64{5, 0, -3, -15, -25, -200} {
		for _, p := range []float64{0.01, 0.3, 0.5, 0.99} {
			q := TruncatedNormalQuantile(mu, 1.3, p)
			near(t, fmt.Sprintf("mu=%g p=%g", mu, p), TruncatedNormalCDF(mu, 1.3, q), p, 1e-9)
		}
	}
	if q := TruncatedNormalQuantile(1, 1, 0); q != 0 {
		t.Errorf("quantile 0 is %g", q)
	}
}

func ExampleTruncatedNormalCRPS() {
	crps, _, _ := TruncatedNormalCRPS(2, 1, 1.5) // m s-1
	fmt.Printf("%.4f\n", crps)
	// Output: 0.3387
}
