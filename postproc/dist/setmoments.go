package dist

import "math"

// SetMoments sets par to the parameters of the distribution with a given mean and standard
// deviation. Parameters that the two moments do not determine keep their values: degrees
// of freedom, the shift of a gamma distribution relative to its scale, the edges of a
// histogram.
//
// Normal, logistic, Student and Bernstein families use location and scale, the log-normal
// one LogNormalFromMoments. For truncated and censored families the ratio of the moments
// determines the location in units of the scale, which is found by bisection. zero_normal
// gets the parameters of the censored normal distribution. A histogram gets the
// probabilities of a normal distribution, with its tails in the outermost bins; its moments
// are close to the given ones.
//
// A distribution truncated at 0 has no standard deviation above its mean; for larger ones
// the result is nearly the exponential distribution with that mean.
//
// Shape: par [parameter]. Unit: that of the variable; std > 0, and mean > 0 for Positive
// families.
// Missing: NaN gives NaN. Cost: up to 100 µs with a search.
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
	wide := func(u float64) bool { // std/mean, which decreases with u, is above the given ratio
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

// maxScalesBelow bounds the location of a truncated or censored distribution below 0, in units of the scale.
const maxScalesBelow = 40.0

// NormalCoefficients returns the coefficients of a Bernstein quantile function that
// approximates the standard normal distribution: normal quantiles at (j+½)/(degree+1),
// scaled to unit variance. Their mean is 0.
//
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1 (Bernstein quantile functions).
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

// normalBins sets p to the probabilities of a normal distribution in the bins between edges, with its tails in the outermost bins.
//
//	p_i = Φ((e_{i+1} − mean)/std) − Φ((e_i − mean)/std)
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
