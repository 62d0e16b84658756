package dist

import "math"

// SetMoments gives par the parameters of the distribution with a mean and a standard deviation. What the two
// leave free is kept from par: degrees of freedom, the shift of a gamma distribution in its scales, the edges
// of a histogram.
//
// Of normal, logistic, Student and Bernstein distributions location and scale follow; of the log-normal one see LogNormalFromMoments.
// What is cut at 0 has the location, in scales, that gives the ratio of both moments, which is searched for.
// zero_normal is that of the censored normal distribution. A histogram has what a normal distribution has between its edges, and the
// tails in its outermost bins, so that its moments are near those asked for.
//
// What is truncated at 0 has no standard deviation larger than its mean: beyond that it is nearly the exponential distribution of the mean.
//
// Shape: par [parameter]. Unit: that of the variable; std > 0, and mean > 0 of families that are Positive.
// Missing: NaN gives NaN. Cost: up to 100 µs where something is searched for.
func (f *Family) SetMoments(par []float64, mean, std float64) {
	if mean != mean || std != std {
		for i := range par {
			par[i] = math.NaN()
		}
		return
	}
	if f.setStandard == nil {
		f.setMoments(par, mean, std)
		return
	}
	wide := func(u float64) bool { // the ratio, which falls with u, is above what is asked for
		f.setStandard(par, u)
		m, s := f.Moments(par)
		return !(m > 0) || s*mean > std*m
	}
	low, high := -maxScalesBelow, 1.0
	for wide(high) && high < 1e12 {
		low, high = high, 2*high
	}
	for range 60 {
		if mid := (low + high) / 2; wide(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	f.setStandard(par, high)
	m, _ := f.Moments(par)
	for i, role := range f.Roles {
		if role != Invariant {
			par[i] *= mean / m
		}
	}
}

// maxScalesBelow is how many scales below 0 what is cut there is located at most.
const maxScalesBelow = 40.0

// NormalCoefficients are the coefficients of a Bernstein quantile function near that of the standard normal
// distribution: quantiles of the middle levels, stretched to unit variance. Their mean is 0.
func NormalCoefficients(degree int) []float64 {
	z := make([]float64, degree+1)
	for j := range z {
		z[j] = NormalQuantile((float64(j) + 0.5) / float64(degree+1))
	}
	_, std := bernsteinMoments(z, false)
	for j := range z {
		z[j] /= std
	}
	return z
}

// normalBins are the probabilities that a normal distribution gives the bins between edges, with its tails.
func normalBins(p, edges []float64, mean, std float64) {
	below := 0.0
	for i := range p {
		upTo := 1.0
		if i < len(p)-1 {
			upTo = NormalCDF((edges[i+1] - mean) / std)
		}
		p[i], below = upTo-below, upTo
	}
}
