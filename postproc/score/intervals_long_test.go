//go:build long

package score

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// want are the true values of calibrationScores: sums over a fine grid of forecasts, and shares of the PIT.
func (o overconfident) want() []float64 {
	normal := distuv.UnitNormal
	table := make([]float64, 3*101)
	const step = 1e-4
	for m := -8.0; m < 8; m += step {
		p, w := normal.CDF((m-o.threshold)/o.spread), normal.Prob(m)*step
		k := 3 * int(math.Round(100*p))
		table[k], table[k+1], table[k+2] = table[k]+w, table[k+1]+w*p, table[k+2]+w*normal.CDF(m-o.threshold)
	}
	d := Decompose(regroup(table, mostGroups))
	shares := make([]float64, pitBins)
	for k := range shares {
		at := func(k int) float64 { return normal.CDF(o.spread * normal.Quantile(float64(k)/pitBins)) }
		shares[k] = at(k+1) - at(k)
	}
	return []float64{d.Reliability, d.Resolution, distanceFromFlat(shares)}
}

// coverage measures how often the intervals of calibrationScores contain the true values.
func (o overconfident) coverage(t *testing.T, n, trials int, rho float64, want []float64) []float64 {
	r := rand.New(rand.NewPCG(uint64(n), math.Float64bits(rho)))
	share := make([]float64, len(want))
	for k := range trials {
		res, err := o.dates(t, r, n, rho, Bias.ID, CRPSGauss.ID).Result(significance.Bootstrap{Resamples: 300, Seed: uint64(k)}, nil)
		if err != nil {
			t.Error(err)
			return share
		}
		for i, id := range calibrationScores {
			v := res.Find(id, "network", "t", "850hPa", "96h")
			if float64(v.CILow) <= want[i] && want[i] <= float64(v.CIHigh) {
				share[i] += 1 / float64(trials)
			}
		}
	}
	return share
}

// Coverage of 95 % intervals of scores that are not means over dates, as docs/verification.md states. The sampling error of
// 1000 trials is 0.7 %.
func TestLongCoverageOfCalibration(t *testing.T) {
	o := overconfident{points: 200, spread: 0.7, threshold: 0.5, common: 0.05}
	want := o.want()
	for _, n := range []int{13, 30, 52, 100, 365} {
		t.Run(fmt.Sprintf("%d dates", n), func(t *testing.T) {
			memories := []float64{0, 0.3, 0.5, 0.8}
			shares := make([][]float64, len(memories))
			var all sync.WaitGroup
			for i, rho := range memories {
				all.Go(func() { shares[i] = o.coverage(t, n, 1000, rho, want) })
			}
			all.Wait()
			for k, rho := range memories {
				share := shares[k]
				if n < significance.MinDatesOfParts {
					if slices.Max(share) > 0 {
						t.Errorf("%d dates have an interval: %.3f", n, share)
					}
					t.Logf("%d dates, correlation %g: withheld", n, rho)
					continue
				}
				var line strings.Builder
				for i, id := range calibrationScores {
					fmt.Fprintf(&line, ", %s %.3f", id, share[i])
					if share[i] < 0.93-0.014 || share[i] > 0.97+0.014 { // two sampling errors
						t.Errorf("%d dates, correlation %g: coverage of %s %.3f", n, rho, id, share[i])
					}
				}
				t.Logf("%d dates, correlation %g%s", n, rho, line.String())
			}
		})
	}
}
