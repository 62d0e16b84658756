package calibration

import (
	"math"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Errors at the quantiles of a known distribution, around spreads of two sizes that are all too small by
// one factor: factor and tails are found again.
func TestTails(t *testing.T) {
	for _, nu := range []float64{5, 9, 20, 1e9} {
		var tails Tails
		const n = 20000
		std := dist.StudentStd(nu)
		for i := range n {
			z := dist.StudentQuantile(nu, (float64(i)+0.5)/n) / std // of variance 1
			for _, s := range []float64{0.5, 3} {
				tails.Add(1.2*s*z, s, 1+float64(i%3))
			}
		}
		tails.Add(math.NaN(), 1, 1)
		tails.Add(1, 0, 1)
		factor, got := tails.Fit()
		// The tails beyond the last quantile are missing: 2 % of the variance at 5 degrees of freedom.
		if tails.Cases() != 2*n || math.Abs(factor-1.2) > 0.015 {
			t.Errorf("nu %g: factor %g of %d cases, want 1.2", nu, factor, tails.Cases())
		}
		if math.Abs(1/got-1/nu) > 0.006 {
			t.Errorf("nu %g: found %g", nu, got)
		}
	}
	if factor, nu := new(Tails).Fit(); factor != 1 || nu < 1e5 {
		t.Errorf("without cases: %g, %g", factor, nu)
	}
}
