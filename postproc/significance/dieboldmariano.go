package significance

import (
	"math"
	"runtime"
	"sync"

	"gonum.org/v1/gonum/mathext"
)

// DMResult is the result of DieboldMariano: the mean difference, the test statistic, and the
// two-sided p-value under the hypothesis that both systems are equally good.
type DMResult struct{ Mean, Statistic, P float64 }

// DieboldMariano tests the hypothesis that the differences d_t of two systems' scores
// have mean 0, with the small-sample correction of Harvey, Leybourne and Newbold:
//
//	S = d̄ / √( (γ₀ + 2 Σ_{k<h} γ_k) / n ) · √( (n + 1 − 2h + h(h−1)/n) / n )
//
// γ_k is the autocovariance at lag k with divisor n. Differences h or more steps apart
// count as independent; h = 1 for independent dates. S is compared with Student's t
// distribution with n−1 degrees of freedom. If the variance estimate is negative, it is
// repeated with the weights 1−k/h, which make it non-negative.
//
// h = 0 measures the memory of the differences: S = d̄/SE with standard error and degrees
// of freedom of [MemoryOf], as the intervals of scores have.
//
// Shape: d [date] in temporal order.
// Missing: NaN in gives NaN; so do fewer than h+1 dates, for h = 0 fewer than MinDates, and differences that are all 0.
// Source: Diebold and Mariano 1995, doi:10.1080/07350015.1995.10524599; Harvey, Leybourne
// and Newbold 1997, doi:10.1016/S0169-2070(96)00719-4.
func DieboldMariano(d []float64, h int) DMResult {
	n := float64(len(d))
	var mean float64
	for _, v := range d {
		mean += v / n
	}
	out := DMResult{mean, math.NaN(), math.NaN()}
	if h == 0 && len(d) >= MinDates {
		if m := MemoryOf(d); m.StandardError > 0 {
			out.Statistic = mean / m.StandardError
			out.P = studentP(out.Statistic, m.Freedom)
		}
		return out
	}
	if h < 1 || len(d) <= h {
		return out
	}
	variance := func(taper float64) (v float64) {
		for k := range h {
			var g float64
			for t := k; t < len(d); t++ {
				g += (d[t] - mean) * (d[t-k] - mean) / n
			}
			if k > 0 {
				g *= 2 * (1 - taper*float64(k)/float64(h))
			}
			v += g
		}
		return v
	}
	v := variance(0)
	if v < 0 {
		v = variance(1)
	}
	f := float64(h)
	out.Statistic = mean / math.Sqrt(v/n) * math.Sqrt((n+1-2*f+f*(f-1)/n)/n)
	out.P = studentP(out.Statistic, n-1)
	return out
}

// DieboldMariano tests differences with the block length of b as horizon, or with their measured memory if b measures
// the length of blocks. b is resolved.
func (b Bootstrap) DieboldMariano(d []float64) DMResult {
	if b.measured {
		return DieboldMariano(d, 0)
	}
	return DieboldMariano(d, b.BlockLength)
}

// studentP is the two-sided p-value of t with dof degrees of freedom, by the regularised
// incomplete beta function I_x(dof/2, ½) at x = dof/(dof+t²).
func studentP(t, dof float64) float64 {
	if math.IsNaN(t) {
		return t
	}
	if math.IsInf(t, 0) {
		return 0
	}
	return mathext.RegIncBeta(dof/2, 0.5, dof/(dof+t*t))
}

// DieboldMarianoMap applies DieboldMariano at every point and returns the p-values. Use
// FalseDiscovery to select points. Points are distributed over the processors.
//
// Shape: d [date][point], dates in temporal order; result [point].
// Missing: dates that are NaN at a point are left out there. Source: as DieboldMariano.
func DieboldMarianoMap(d [][]float32, h int) []float64 {
	out := make([]float64, len(d[0]))
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		all.Go(func() {
			var at []float64
			for p := w * len(out) / workers; p < (w+1)*len(out)/workers; p++ {
				at = at[:0]
				for t := range d {
					if x := float64(d[t][p]); x == x {
						at = append(at, x)
					}
				}
				out[p] = DieboldMariano(at, h).P
			}
		})
	}
	all.Wait()
	return out
}
