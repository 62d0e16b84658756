package dist

import (
	"math"
	"testing"
)

// A distribution made from moments has these moments, in every family that can have them.
func TestOfMoments(t *testing.T) {
	free := map[string][]float64{Student.ID: {0, 1, 4.5}, CSGamma.ID: {1, 2, 0.7}}
	for _, f := range append(fixedFamilies(), Bernstein(7), CensoredBernstein(7)) {
		for _, mean := range []float64{0.002, 1, 283} {
			for _, ratio := range []float64{1e-3, 0.05, 0.4, 0.8, 1.5, 6} {
				truncated := f == TruncatedNormal || f == TruncatedLogistic
				if truncated && ratio > 0.9 {
					continue
				}
				par := make([]float64, len(f.Parameters))
				copy(par, free[f.ID])
				f.SetMoments(par, mean, ratio*mean)
				m, s := f.Moments(par)
				if !(math.Abs(m-mean) < 1e-6*mean && math.Abs(s-ratio*mean) < 1e-5*ratio*mean) {
					t.Errorf("%s of mean %g and ratio %g: %v has %g and %g", f.ID, mean, ratio, par, m, s/m)
				}
				if f == Student && par[2] != 4.5 || f == CSGamma && math.Abs(par[2]/par[1]-0.35) > 1e-12 || f == ZeroNormal && math.Abs(par[0]-NormalCDF(-par[1]/par[2])) > 1e-15 {
					t.Errorf("%s: %v", f.ID, par)
				}
			}
		}
		par := make([]float64, len(f.Parameters))
		if f.SetMoments(par, math.NaN(), 1); !math.IsNaN(par[0]) {
			t.Errorf("%s: a missing mean gives %v", f.ID, par)
		}
	}
	for _, f := range []*Family{TruncatedNormal, TruncatedLogistic} { // an exponential distribution where the ratio is too large
		par := make([]float64, 2)
		f.SetMoments(par, 3, 12)
		if m, s := f.Moments(par); math.Abs(m-3) > 1e-6 || math.Abs(s-3) > 0.01 || math.Abs(f.CDF(par, 3)-(1-math.Exp(-1))) > 0.01 {
			t.Errorf("%s: mean %g, standard deviation %g, %g below the mean", f.ID, m, s, f.CDF(par, 3))
		}
	}
	// Bins have the probabilities of the normal distribution.
	edges, h := []float64{-1, 0, 0.5, 2}, Histogram(3)
	par := append(append([]float64{}, edges...), 0, 0, 0)
	h.SetMoments(par, 0.3, 0.8)
	for i, want := range []float64{NormalCDF(-0.3 / 0.8), NormalCDF(0.2/0.8) - NormalCDF(-0.3/0.8), 1 - NormalCDF(0.2/0.8)} {
		if math.Abs(par[4+i]-want) > 1e-12 {
			t.Errorf("bin %d: %g, want %g", i, par[4+i], want)
		}
	}
}
