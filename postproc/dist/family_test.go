package dist

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
)

// fixedFamilies are the families without a size.
func fixedFamilies() (all []*Family) {
	for _, r := range Table {
		if r.Size == NoSize {
			all = append(all, r.AnyFamily())
		}
	}
	return all
}

// casesOf are the cases of a family: those below, or of one of a location and a scale any.
func casesOf(f *Family) [][]float64 {
	if cases := familyCases[f.ID]; cases != nil || f.StandardMoments == (Moments{}) || f.Positive {
		return cases
	}
	return [][]float64{{0.3, 0.8}, {-2, 3}}
}

// familyCases are parameters for the laws that hold in every family.
var familyCases = map[string][][]float64{
	"truncated_normal":       {{1, 2}, {-3, 1.5}, {-25, 1}},
	"censored_normal":        {{1, 2}, {-3, 1.5}, {4, 0.7}},
	"zero_normal":            {{0.3, 1, 2}, {0.6, -1, 3}, {0, 2, 1}, {0.2, -25, 1}},
	"log_normal":             {{0.2, 0.5}, {-1, 1.2}},
	"truncated_logistic":     {{1, 2}, {-3, 1.5}, {-50, 1.3}},
	"censored_logistic":      {{1, 2}, {-3, 1.5}, {8, 0.7}},
	"censored_shifted_gamma": {{0.6, 2, 0.4}, {3, 0.8, 0}, {12, 0.3, 1.5}},
	"student":                {{0.3, 0.8, 9}, {-2, 3, 12.5}, {1, 0.5, 7}, {0.1, 0.9, 1e9}},
}

// The CRPS of every family is ∫(F−1[x≥y])², by its own distribution function; the
// quantile inverts that function; the gradient is that of the score.
func TestFamilies(t *testing.T) {
	for _, f := range fixedFamilies() {
		cases := casesOf(f)
		if len(cases) == 0 || FamilyByID(f.ID, len(f.Parameters)) != f {
			t.Errorf("%s: no cases, or not found by its name", f.ID)
		}
		for _, par := range cases {
			grad, moved := make([]float64, len(par)), slices.Clone(par)
			for _, y := range []float64{0.05, 0.4, 1.7, 6, -0.6} {
				name := fmt.Sprintf("%s%v at %g", f.ID, par, y)
				crps := f.CRPS(grad, par, y)
				near(t, name+": integral", crps, integral(func(x float64) float64 { return f.CDF(par, x) }, y, 2000), 2e-6)
				for i := range par {
					if f.ID == "zero_normal" && i == 0 && par[0] == 0 || f.ID == "censored_shifted_gamma" && i == 2 && par[2] == 0 {
						continue // at the end of the parameter's range
					}
					h := 1e-5 * math.Max(1, math.Abs(par[i]))
					moved[i] = par[i] + h
					up := f.CRPS(nil, moved, y)
					moved[i] = par[i] - h
					down := f.CRPS(nil, moved, y)
					moved[i] = par[i]
					near(t, name+": d/d"+f.Parameters[i], grad[i], (up-down)/(2*h), 2e-8)
				}
			}
			for _, p := range []float64{0.02, 0.3, 0.5, 0.9, 0.999} {
				if q := f.Quantile(par, p); q > 0 || f.CDF(par, q) < 1e-300 || !f.Positive {
					near(t, fmt.Sprintf("%s%v: CDF of the %g quantile", f.ID, par, p), f.CDF(par, q), p, 1e-9)
				} else if f.CDF(par, 0) < p-1e-12 {
					t.Errorf("%s%v: quantile %g is 0, where the mass at 0 is %g", f.ID, par, p, f.CDF(par, 0))
				}
			}
			if v := f.CRPS(grad, par, math.NaN()); !math.IsNaN(v) {
				t.Errorf("%s: missing observation scores %g", f.ID, v)
			}
		}
	}
}

// integral is ∫(F−1[x≥y])² by Simpson's rule, n steps on each of the stretches that end where F or the
// step may jump.
func integral(cdf func(x float64) float64, y float64, n int) float64 {
	ends := []float64{-60, -8, math.Min(y, 0), math.Max(y, 0), math.Max(y, 0) + 2, math.Max(y, 0) + 20, 120}
	var sum float64
	for i := range ends[1:] {
		a, b := ends[i], ends[i+1]
		h := (b - a) / float64(n)
		for k := 0; k <= n; k++ {
			x := a + float64(k)*h
			switch k { // one-sided values at the ends
			case 0:
				x += 1e-12
			case n:
				x -= 1e-12
			}
			v := cdf(x)
			if a >= y {
				v--
			}
			w := 4.0
			if k == 0 || k == n {
				w = 1
			} else if k%2 == 0 {
				w = 2
			}
			sum += w * v * v * h / 3
		}
	}
	return sum
}

// The golden rows come from scoringrules (testdata/families.py).
func TestFamiliesGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/families.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Family string
		Par    []float64
		Y      float64
		CRPS   float64
	}
	if err := json.Unmarshal(raw, &rows); err != nil || len(rows) < 40 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	seen := map[string]bool{}
	for _, r := range rows {
		f := FamilyByID(r.Family, len(r.Par))
		if f == nil {
			t.Fatalf("no family %q", r.Family)
		}
		seen[r.Family] = true
		near(t, fmt.Sprint(r.Family, r.Par, " at ", r.Y), f.CRPS(nil, r.Par, r.Y), r.CRPS, 1e-6)
	}
	for _, f := range fixedFamilies() {
		if !seen[f.ID] {
			t.Errorf("no golden row of %s", f.ID)
		}
	}
}

// The zero-inflated truncated normal: rows of the specification, and its two limits.
func TestZeroNormalCRPS(t *testing.T) {
	for _, c := range []struct{ p, mu, sigma, y, want float64 }{
		{0.3, 1, 2, 1.5, 0.4426612528}, {0.6, -1, 3, 0, 0.1883350733}, {0.1, 2, 1, 4, 1.5482950116},
	} {
		got, _, _, _ := ZeroNormalCRPS(c.p, c.mu, c.sigma, c.y)
		near(t, fmt.Sprint(c), got, c.want, 1e-9)
	}
	for _, mu := range []float64{-8, -1, 2} {
		p := NormalCDF(-mu / 1.5)
		got, _, _, _ := ZeroNormalCRPS(p, mu, 1.5, 0.7)
		want, _, _ := CensoredNormalCRPS(mu, 1.5, 0.7)
		near(t, fmt.Sprint("censored, mu ", mu), got, want, 1e-9)
		got, _, dmu, dsigma := ZeroNormalCRPS(0, mu, 1.5, 0.7)
		want, wmu, wsigma := TruncatedNormalCRPS(mu, 1.5, 0.7)
		near(t, fmt.Sprint("truncated, mu ", mu), got, want, 1e-10)
		near(t, fmt.Sprint("truncated d/dmu, mu ", mu), dmu, wmu, 1e-10)
		near(t, fmt.Sprint("truncated d/dsigma, mu ", mu), dsigma, wsigma, 1e-10)
	}
	// Both sides of the switch to the exponential form, centre far below 0.
	a, ap, _, _ := ZeroNormalCRPS(0.2, -299.999, 1, 0.004)
	b, bp, _, _ := ZeroNormalCRPS(0.2, -300.001, 1, 0.004)
	if math.Abs(a/b-1) > 1e-4 || math.Abs(ap/bp-1) > 1e-4 {
		t.Errorf("far below: %g, %g and %g, %g", a, ap, b, bp)
	}
}

func TestLogisticLimits(t *testing.T) {
	for _, f := range []*Family{Logistic, CensoredLogistic, TruncatedLogistic, CensoredNormal, LogNormal} {
		at := 3.0
		if f == LogNormal {
			at = math.Log(3)
		}
		near(t, f.ID+": point mass", f.CRPS(nil, []float64{at, 0}, 1), 2, 1e-15)
		near(t, f.ID+": narrow", f.CRPS(nil, []float64{at, 1e-9}, 1), 2, 1e-8)
		if v := f.CRPS(nil, []float64{at, -1}, 1); !math.IsNaN(v) {
			t.Errorf("%s: negative scale scores %g", f.ID, v)
		}
	}
	// Far above 0 nothing is cut off.
	want, _, _ := LogisticCRPS(60, 1.2, 62)
	for _, f := range []*Family{CensoredLogistic, TruncatedLogistic} {
		near(t, f.ID+": uncut", f.CRPS(nil, []float64{60, 1.2}, 62), want, 1e-13)
	}
	// Both sides of the switch to the exponential form.
	a, _, ds := TruncatedLogisticCRPS(-29.9999999, 1, 0.8)
	b, _, dt := TruncatedLogisticCRPS(-30.0000001, 1, 0.8)
	near(t, "exponential", a, b, 1e-9)
	near(t, "exponential d/ds", ds, dt, 1e-9)
	near(t, "quantile", LogisticQuantile(LogisticCDF(-3.3)), -3.3, 1e-14)
}

func TestLogNormalFromMoments(t *testing.T) {
	mu, sigma := LogNormalFromMoments(3, 0.7)
	mean := math.Exp(mu + sigma*sigma/2)
	near(t, "mean", mean, 3, 1e-14)
	near(t, "standard deviation", mean*math.Sqrt(math.Expm1(sigma*sigma)), 0.7, 1e-14)
}

func TestHistogramCRPS(t *testing.T) {
	edges, p := []float64{0, 1, 2, 4, 8}, []float64{0.1, 0.3, 0.4, 0.2}
	near(t, "row of the specification", HistogramCRPS(nil, edges, p, 2.5), 0.4233333333, 1e-9)
	dp, moved := make([]float64, 4), slices.Clone(p)
	for _, y := range []float64{-1.5, 0, 0.3, 2, 2.5, 7.9, 8, 11} {
		got := HistogramCRPS(dp, edges, p, y)
		near(t, fmt.Sprint("integral at ", y), got, integral(func(x float64) float64 { return HistogramCDF(edges, p, x) }, y, 2000), 1e-3)
		for i := range p {
			const h = 1e-6
			moved[i] = p[i] + h
			up := HistogramCRPS(nil, edges, moved, y)
			moved[i] = p[i] - h
			down := HistogramCRPS(nil, edges, moved, y)
			moved[i] = p[i]
			near(t, fmt.Sprintf("at %g: d/dp%d", y, i), dp[i], (up-down)/(2*h), 1e-8)
		}
	}
	for _, q := range []float64{0, 0.1, 0.25, 0.77, 1} {
		near(t, fmt.Sprint("quantile ", q), HistogramCDF(edges, p, HistogramQuantile(edges, p, q)), q, 1e-14)
	}
	if !math.IsNaN(HistogramCRPS(nil, edges, p, math.NaN())) || !math.IsNaN(HistogramQuantile(edges, p, 1.1)) {
		t.Error("missing values must give NaN")
	}
}

func TestBernstein(t *testing.T) {
	a := []float64{270, 271, 273, 276}
	near(t, "Q(0.25)", BernsteinQuantile(a, 0.25), 270.9375, 1e-14)
	near(t, "Q(0.5)", BernsteinQuantile(a, 0.5), 272.25, 1e-14)
	near(t, "PIT", BernsteinCDF(a, 272), 0.4574271078, 1e-10)
	near(t, "CRPS", BernsteinCRPS(nil, a, 272), 0.5105660618, 1e-10)
	var pinball float64
	for k := 1; k < 100; k++ {
		p := float64(k) / 100
		d := 272 - BernsteinQuantile(a, p)
		pinball += 2 * math.Max(p*d, (p-1)*d) / 99
	}
	near(t, "mean over 99 levels", pinball, 0.5156363636, 1e-10)
	da, moved := make([]float64, 4), slices.Clone(a)
	for _, y := range []float64{268, 270, 271.2, 272, 275.9, 276, 280} {
		got := BernsteinCRPS(da, a, y)
		near(t, fmt.Sprint("integral at ", y), got, integral(func(x float64) float64 { return BernsteinCDF(a, x+272) }, y-272, 400), 1e-5)
		for i := range a {
			const h = 1e-4
			moved[i] = a[i] + h
			up := BernsteinCRPS(nil, moved, y)
			moved[i] = a[i] - h
			down := BernsteinCRPS(nil, moved, y)
			moved[i] = a[i]
			near(t, fmt.Sprintf("at %g: d/da%d", y, i), da[i], (up-down)/(2*h), 1e-4) // y may lie on an end
		}
	}
	near(t, "one coefficient", BernsteinCRPS(nil, []float64{3}, 5), 2, 1e-14)
	if !math.IsNaN(BernsteinCRPS(nil, a, math.NaN())) || !math.IsNaN(BernsteinQuantile(a, -0.1)) {
		t.Error("missing values must give NaN")
	}
}

func ExampleCSGammaCRPS() {
	crps, _, _, _ := CSGammaCRPS(0.6, 2, 0.4, 1.7) // mm
	fmt.Printf("%.4f mm\n", crps)
	// Output: 0.7836 mm
}

// What is below and above a value and at it makes one; NaN stays NaN.
func TestBelowAndAbove(t *testing.T) {
	nan := math.NaN()
	for _, f := range fixedFamilies() {
		for _, par := range familyCases[f.ID] {
			for _, p := range []float64{0.02, 0.3, 0.9} {
				name := fmt.Sprintf("%s%v at its %g quantile", f.ID, par, p)
				q := f.Quantile(par, p)
				near(t, name, f.QuantileFunc(p)(par), q, 1e-15)
				if q > 0 {
					near(t, name+": below", f.Below(par, q), p, 1e-9)
					near(t, name+": above", f.Above(par, q), 1-p, 1e-9)
				}
			}
			missing := slices.Clone(par)
			missing[len(par)-1] = nan
			if !math.IsNaN(f.Below(missing, -1)) || !math.IsNaN(f.Above(missing, -1)) {
				t.Errorf("%s: a missing parameter gives a number", f.ID)
			}
		}
	}
	near(t, "below 0", CensoredNormal.Below([]float64{-3, 2}, 0), 0, 0)
	near(t, "above 0", CensoredNormal.Above([]float64{0, 2}, 0), 0.5, 1e-15)
	near(t, "above −1", CensoredNormal.Above([]float64{-9, 2}, -1), 1, 0)
}
