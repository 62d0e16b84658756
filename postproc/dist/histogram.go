package dist

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// HistogramCDF is the distribution function at x of a piecewise constant density: the
// probability p[i] from edges[i] to edges[i+1]. A bin of width 0 is a point mass.
//
// Shape: edges [n+1] ascending, p [n] not negative, adding up to 1. Missing: NaN in x gives NaN.
func HistogramCDF(edges, p []float64, x float64) float64 {
	if math.IsNaN(x) {
		return x
	}
	var f float64
	for i, w := range p {
		if x < edges[i+1] {
			return min(1, f+w*max(0, (x-edges[i])/(edges[i+1]-edges[i]))) // rounding may exceed 1
		}
		f += w
	}
	return 1
}

// HistogramQuantile is the q quantile of a histogram; NaN for q outside [0, 1].
func HistogramQuantile(edges, p []float64, q float64) float64 {
	if !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	var f float64
	for i, w := range p {
		if w > 0 && f+w >= q {
			return edges[i] + max(0, q-f)/w*(edges[i+1]-edges[i])
		}
		f += w
	}
	return edges[len(edges)-1]
}

// HistogramCRPS is the exact CRPS of a histogram for y. On an interval of length L where F
// (left of y) or 1−F (right of y) changes from u₀ to u₁ it adds
//
//	L (u₀² + u₀u₁ + u₁²) / 3,   ∂/∂u₀ = L(2u₀+u₁)/3,   ∂/∂u₁ = L(u₀+2u₁)/3
//
// and beyond the edges the distance to y. dp, if not nil, receives the derivatives with
// respect to the probabilities, where 1−F is the sum of the probabilities above.
//
// Shape: edges [n+1] ascending, p and dp [n]. Unit: that of y. Missing: NaN in gives NaN.
// Cost: O(n) without dp, O(n²) with it; no allocation.
// Source: Schulz and Lerch 2022, doi:10.1175/MWR-D-21-0150.1 (histogram estimation).
func HistogramCRPS(dp, edges, p []float64, y float64) float64 {
	n := len(p)
	crps := max(edges[0]-y, 0) + max(y-edges[n], 0)
	if math.IsNaN(y) {
		crps = y
	}
	for i := range dp {
		dp[i] = 0
	}
	// Bins left of y contribute to F, summed from below; bins right of it to 1−F, summed
	// from above. The bin that contains y contributes to both.
	at := min(n-1, max(0, sort.SearchFloat64s(edges, y)-1))
	inside := min(edges[at+1], max(edges[at], y))
	part := 0.0
	if width := edges[at+1] - edges[at]; width > 0 { // a bin of width 0 is a point mass
		part = (inside - edges[at]) / width
	}
	side := func(first, step, last int, cut float64) {
		var u float64
		for i := first; ; i += step {
			length, w := edges[i+1]-edges[i], p[i]
			share := 1.0
			if i == last {
				length, share = length*cut, cut
			}
			v := u + share*w
			crps += length * (u*u + u*v + v*v) / 3
			if dp != nil {
				// v = u + share·p[i], where u is the sum of the previous bins
				both := length * (u + v)
				dp[i] += share * length * (u + 2*v) / 3
				for j := first; j != i; j += step {
					dp[j] += both
				}
			}
			if i == last {
				return
			}
			u = v
		}
	}
	side(0, 1, at, part)
	side(n-1, -1, at, 1-part)
	return crps
}

// HistogramMoments returns mean and standard deviation of a histogram.
func HistogramMoments(edges, p []float64) (mean, std float64) {
	var e, e2 float64
	for i, w := range p {
		a, b := edges[i], edges[i+1]
		e += w * (a + b) / 2
		e2 += w * (a*a + a*b + b*b) / 3
	}
	return fromRawMoments(e, e2)
}

// HistogramID is the id of the family of histograms.
const HistogramID = "histogram"

// Histogram is the family of histograms with a number of bins: piecewise constant densities.
//
// Parameters: the bins+1 edges, ascending, then the probabilities. Source: Schulz and Lerch 2022,
// doi:10.1175/MWR-D-21-0150.1.
func Histogram(bins int) *Family {
	f := &Family{ID: HistogramID, Name: "histogram"}
	for i := range bins + 1 {
		f.Parameters, f.Roles = append(f.Parameters, fmt.Sprintf("edge_%02d", i)), append(f.Roles, Location)
	}
	for i := range bins {
		f.Parameters, f.Roles = append(f.Parameters, fmt.Sprintf("p_%02d", i+1)), append(f.Roles, Invariant)
	}
	f.CDF = func(par []float64, x float64) float64 { return HistogramCDF(par[:bins+1], par[bins+1:], x) }
	f.Quantile = func(par []float64, p float64) float64 { return HistogramQuantile(par[:bins+1], par[bins+1:], p) }
	f.Moments = func(par []float64) (mean, std float64) { return HistogramMoments(par[:bins+1], par[bins+1:]) }
	f.setMoments = func(par []float64, mean, std float64) { normalBins(par[bins+1:], par[:bins+1], mean, std) }
	f.Average = func(edges []float64, p [][]float64) []float64 {
		means, probabilities := AverageHistograms(edges, p)
		return append(means, probabilities...)
	}
	f.CRPS = func(grad, par []float64, y float64) float64 {
		if grad != nil {
			panic("dist: the edges of a histogram are constants: its CRPS has no gradient with respect to parameters that include them")
		}
		return HistogramCRPS(nil, par[:bins+1], par[bins+1:], y)
	}
	return guard(f)
}

// AverageHistograms averages the quantile functions of n histograms with the same edges
// (Vincentization). The average is piecewise linear between the levels of all of them, so it
// is a histogram too. Averaging probabilities would give a distribution that is wider than
// each.
//
// Shape: edges [b+1], p [n][b]; the result has n(b−1)+1 bins, some of which may have no
// probability or no width.
// Source: Schulz and Lerch 2022, doi:10.1175/MWR-D-21-0150.1.
func AverageHistograms(edges []float64, p [][]float64) (means, probabilities []float64) {
	n, b := len(p), len(edges)-1
	levels := make([]float64, 0, n*(b-1)+2)
	levels = append(levels, 0)
	for _, q := range p {
		var sum float64
		for _, w := range q[:b-1] {
			sum += w
			levels = append(levels, min(sum, 1))
		}
	}
	levels = append(levels, 1)
	slices.Sort(levels)
	means = make([]float64, len(levels))
	for _, q := range p {
		bin, below := 0, 0.0 // bin of the level, and the probability below that bin
		for i, l := range levels {
			for bin < b-1 && below+q[bin] < l {
				below += q[bin]
				bin++
			}
			part := 0.0
			if q[bin] > 0 {
				part = min(1, max(0, l-below)/q[bin])
			}
			if i == len(levels)-1 {
				bin, part = b-1, 1
			}
			means[i] += (edges[bin] + part*(edges[bin+1]-edges[bin])) / float64(n)
		}
	}
	for i := range levels[1:] {
		probabilities = append(probabilities, levels[i+1]-levels[i])
	}
	return means, probabilities
}

// HistogramCrossEntropy is the negative log probability of the bin that contains the
// observation, for logits x:
//
//	−log softmax(x)[bin],   dx_i = softmax(x)_i − 1[i = bin]
//
// dx may be nil.
//
// Shape: x and dx [bin]. Unit: nats. Missing: NaN, or a bin out of range, gives NaN.
// Source: Schulz and Lerch 2022, doi:10.1175/MWR-D-21-0150.1 (histogram estimation network).
func HistogramCrossEntropy(dx, x []float64, bin float64) float64 {
	if !(bin >= 0 && bin < float64(len(x))) {
		for i := range dx {
			dx[i] = math.NaN()
		}
		return math.NaN()
	}
	largest := slices.Max(x)
	var sum float64
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	for i := range dx {
		dx[i] = math.Exp(x[i]-largest) / sum
	}
	at := int(bin)
	if dx != nil {
		dx[at]--
	}
	return math.Log(sum) + largest - x[at]
}
