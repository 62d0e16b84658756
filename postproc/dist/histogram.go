package dist

import (
	"math"
	"sort"
)

// HistogramCDF is the distribution function at x of a density that is constant
// between neighbouring edges: probability p[i] from edges[i] to edges[i+1].
//
// Shape: edges [n+1] ascending, p [n] not negative, adding up to 1.
func HistogramCDF(edges, p []float64, x float64) float64 {
	if math.IsNaN(x) {
		return x
	}
	var f float64
	for i, w := range p {
		if x < edges[i+1] {
			return f + w*max(0, (x-edges[i])/(edges[i+1]-edges[i]))
		}
		f += w
	}
	return 1
}

// HistogramQuantile is the smallest value below which the histogram lies with
// probability q.
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

// HistogramCRPS is the CRPS of a histogram against y. It is exact: on a stretch of
// length L where F (left of y) or 1−F (right of it) goes from u₀ to u₁ it adds
//
//	L (u₀² + u₀u₁ + u₁²) / 3,   ∂/∂u₀ = L(2u₀+u₁)/3,   ∂/∂u₁ = L(u₀+2u₁)/3
//
// and beyond the edges the distance of y. dp, if not nil, takes the derivatives by
// the probabilities, with 1−F the sum of those above.
//
// Shape: edges [n+1] ascending, p and dp [n]. Unit: that of y. Missing: NaN in gives NaN.
// Cost: O(n); no allocation.
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
	// Bins left of y belong to F, counted from below; those right of it to 1−F, from
	// above. The bin with y is in both.
	at := min(n-1, max(0, sort.SearchFloat64s(edges, y)-1))
	inside := min(edges[at+1], max(edges[at], y))
	part := (inside - edges[at]) / (edges[at+1] - edges[at])
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
				// v = u + share·p[i], and u is the sum of the bins before
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
