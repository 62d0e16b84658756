package dist

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// manyParameters are distributions whose number of parameters is free.
var manyParameters = []struct {
	f   *Family
	par []float64
}{
	{Bernstein(3), []float64{270, 271, 273, 276}},
	{Bernstein(5), []float64{-1, -0.2, 0.4, 0.5, 2, 7}},
	{CensoredBernstein(5), []float64{-1, -0.2, 0.4, 0.5, 2, 7}},
	{CensoredBernstein(2), []float64{0.1, 0.4, 3}},
	{Histogram(4), []float64{0, 1, 2, 4, 8, 0.1, 0.3, 0.4, 0.2}},
	{Histogram(3), []float64{0, 0, 1.5, 4, 0.5, 0.4, 0.1}}, // half of it is 0
}

// Mean and standard deviation are those of the quantile function: ∫Q and ∫Q².
func TestMoments(t *testing.T) {
	check := func(f *Family, par []float64) {
		const n, end = 4000, 7.5 // trapezoids in z = Φ⁻¹(p), beyond which 3e-14 of the probability are left
		var sum, sum2 float64
		for i := range n {
			z := end * (2*float64(i)/(n-1) - 1)
			q, w := f.Quantile(par, NormalCDF(z)), NormalPDF(z)*2*end/(n-1)
			sum, sum2 = sum+w*q, sum2+w*q*q
		}
		mean, std := f.Moments(par)
		want := math.Sqrt(sum2 - sum*sum)
		if size := math.Max(math.Abs(sum), want); math.Abs(mean-sum) > 1e-5*size || math.Abs(std-want) > 1e-5*size {
			t.Errorf("%s%v: mean %g, std %g, by quantiles %g, %g", f.ID, par, mean, std, sum, want)
		}
	}
	for _, f := range fixedFamilies() {
		for _, par := range casesOf(f) {
			check(f, par)
		}
	}
	for _, c := range manyParameters {
		check(c.f, c.par)
	}
}

// Bernstein quantile functions and histograms are families: their CRPS is ∫(F−1[x≥y])², and they
// are found by their names.
func TestFamiliesOfManyParameters(t *testing.T) {
	for _, c := range manyParameters {
		found := FamilyByID(c.f.ID, len(c.par))
		if found == nil || found.ID != c.f.ID || !slices.Equal(found.Parameters, c.f.Parameters) {
			t.Errorf("%s: found %v", c.f.ID, found)
		}
		for _, y := range []float64{0.05, 1.7, 6, -0.6} {
			if c.par[0] > 100 {
				y += 271
			}
			cdf := func(x float64) float64 { return c.f.CDF(c.par, x) }
			from := 0.0
			if c.par[0] > 100 { // the stretches of the integral begin at 0
				from = 271
				cdf = func(x float64) float64 { return c.f.CDF(c.par, x+271) }
			}
			near(t, fmt.Sprint(c.f.ID, c.par, " at ", y), c.f.CRPS(nil, c.par, y), integral(cdf, y-from, 4000), 2e-4)
		}
	}
	for _, wrong := range []struct {
		id string
		n  int
	}{{"bernstein", 1}, {"histogram", 4}, {"normal", 3}, {"none", 2}} {
		if f := FamilyByID(wrong.id, wrong.n); f != nil {
			t.Errorf("%s of %d parameters: %v", wrong.id, wrong.n, f.Parameters)
		}
	}
}

// What lies above a threshold scores ∫_t^∞ (F−1[x≥y])².
func TestCRPSAbove(t *testing.T) {
	n := 0
	families := append(fixedFamilies(), manyParameters[1].f, manyParameters[2].f)
	for _, f := range families {
		if f.Excess.Family == nil {
			continue
		}
		n++
		cases := casesOf(f)
		if cases == nil {
			cases = [][]float64{manyParameters[1].par}
		}
		for _, par := range cases {
			for _, threshold := range []float64{0.5, 2} {
				for _, y := range []float64{0.1, 1.7, 6} {
					got := f.CRPSAbove(nil, slices.Clone(par), threshold, y)
					want := integral(func(x float64) float64 {
						if x < 0 {
							return 0
						}
						return f.CDF(par, x+threshold)
					}, math.Max(y-threshold, 0), 1000)
					near(t, fmt.Sprint(f.ID, par, " above ", threshold, " at ", y), got, want, 1e-4)
				}
			}
		}
	}
	if n < 7 {
		t.Errorf("%d families have an excess", n)
	}
}

// The row of the specification, and Bremnes' loss against the exact score.
func TestBernsteinPinball(t *testing.T) {
	a := []float64{270, 271, 273, 276}
	near(t, "99 levels", BernsteinPinball(3, 99, false)(nil, a, 272), 0.5156363636, 1e-10)
	near(t, "many levels", BernsteinPinball(3, 20000, false)(nil, a, 272), BernsteinCRPS(nil, a, 272), 1e-4)
	cut := []float64{-1, -0.2, 0.4, 2, 7}
	near(t, "censored", BernsteinPinball(4, 20000, true)(nil, cut, 0), CensoredBernsteinCRPS(nil, cut, 0), 1e-3)
}

// The derivatives of the censored score are those of its values.
func TestCensoredBernsteinGradient(t *testing.T) {
	a := []float64{-1, -0.2, 0.4, 2, 7}
	da := make([]float64, len(a))
	for _, y := range []float64{0, 0.3, 4, 9} {
		CensoredBernsteinCRPS(da, a, y)
		for j := range a {
			const h = 1e-5
			up, down := slices.Clone(a), slices.Clone(a)
			up[j], down[j] = a[j]+h, a[j]-h
			near(t, fmt.Sprint("d/da ", j, " at ", y), da[j], (CensoredBernsteinCRPS(nil, up, y)-CensoredBernsteinCRPS(nil, down, y))/(2*h), 1e-8)
		}
	}
}

// The average of histograms has the mean of their quantiles, at all levels.
func TestAverageHistograms(t *testing.T) {
	edges := []float64{-1, 0, 0.5, 2, 6}
	p := [][]float64{{0.1, 0.2, 0.3, 0.4}, {0.4, 0.1, 0.25, 0.25}, {0.1, 0.2, 0.3, 0.4}}
	means, q := AverageHistograms(edges, p)
	if len(q) != 3*3+1 || len(means) != len(q)+1 || !slices.IsSorted(means) {
		t.Fatalf("edges %v, probabilities %v", means, q)
	}
	for _, level := range []float64{0, 0.05, 0.1, 0.31, 0.5, 0.77, 0.99, 1} {
		var want float64
		for _, x := range p {
			want += HistogramQuantile(edges, x, level) / 3
		}
		near(t, fmt.Sprint("level ", level), HistogramQuantile(means, q, level), want, 1e-12)
	}
	same, _ := AverageHistograms(edges, p[:1])
	for i := range edges {
		near(t, "one network", same[i], edges[i], 1e-12)
	}
}

// The golden rows come from PyTorch's automatic differentiation (testdata/heads.py).
func TestHeadsGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/heads.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Rule     string
		Censored bool
		Par      []float64
		Y, Loss  float64
		Grad     []float64
	}
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) < 20 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for _, r := range rows {
		grad := make([]float64, len(r.Par))
		score := HistogramCrossEntropy
		if r.Rule == "pinball" {
			score = BernsteinPinball(len(r.Par)-1, 99, r.Censored)
		}
		name := fmt.Sprint(r.Rule, r.Par, " at ", r.Y)
		near(t, name, score(grad, r.Par, r.Y), r.Loss, 1e-12)
		for i, g := range grad {
			near(t, fmt.Sprint(name, " d", i), g, r.Grad[i], 1e-12)
		}
	}
}

// The average of gamma distributions has the mean of their means and standard deviations, even if
// one of them is nearly dry, with a large scale and a small shape.
func TestAverageCSGamma(t *testing.T) {
	par := [][]float64{{4, 0.5, 0.3}, {1e-4, 200, 0.1}}
	got := AverageCSGamma(par)
	near(t, "mean", got[0]*got[1], (2+0.02)/2, 1e-12)
	near(t, "deviation", math.Sqrt(got[0])*got[1], (1+2)/2., 1e-12)
	near(t, "shift", got[2], 0.2, 1e-12)
	if mean, _ := csGammaMoments(got); !(mean < 1.5) {
		t.Errorf("mean %g, of the networks at most 2", mean)
	}
	for i, v := range AverageCSGamma(par[:1]) {
		near(t, "one network", v, par[0][i], 1e-12)
	}
}
