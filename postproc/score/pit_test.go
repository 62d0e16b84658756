package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// The PIT histogram of calibrated censored forecasts, most of them of a dry day, is flat; without the shares of the
// point mass its bins differ by more than ten standard deviations.
func TestPITAtPointMass(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	sums := make([]float64, pitBins)
	const n = 20000
	for range n {
		mu := random.NormFloat64() - 0.5
		c := &Case{Family: dist.CensoredNormal, Parameters: []float64{mu, 1}, Obs: max(0, mu+random.NormFloat64())}
		PITFlatness.SharedSums.Add(sums, 1, c)
	}
	total := 0.0
	for k, x := range sums {
		total += x
		if e := float64(n) / pitBins; math.Abs(x-e) > 4*math.Sqrt(e) {
			t.Errorf("bin %d has %.1f, want %.0f", k, x, e)
		}
	}
	if math.Abs(total-n) > 1e-6 {
		t.Errorf("the bins add up to %g, want %d", total, n)
	}
}
