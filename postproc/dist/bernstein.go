package dist

import (
	"fmt"
	"math"
)

// BernsteinQuantile is the quantile function given by the Bernstein polynomial of degree d
// with coefficients a:
//
//	Q(t) = Σ_j a_j C(d,j) t^j (1−t)^(d−j)
//
// It is non-decreasing if the coefficients are. The mean of the distribution is the mean
// of the coefficients.
//
// Shape: a [d+1], d ≥ 0. Unit: that of a. Missing: NaN for t outside [0, 1].
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1.
func BernsteinQuantile(a []float64, t float64) float64 {
	if !(t >= 0 && t <= 1) {
		return math.NaN()
	}
	d := len(a) - 1
	var sum float64
	bernstein(d, t, func(j int, b float64) { sum += a[j] * b })
	return sum
}

// BernsteinCDF is the distribution function, the t with Q(t) = x: 0 below a[0], 1 above the
// last coefficient. It is found by bisection.
//
// Shape: a [d+1], ascending. Missing: NaN in x gives NaN.
func BernsteinCDF(a []float64, x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x <= a[0]:
		return 0
	case x >= a[len(a)-1]:
		return 1
	}
	low, high := 0.0, 1.0
	for range 60 { // bisection to below 1e-16 in t
		mid := (low + high) / 2
		if BernsteinQuantile(a, mid) < x {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// BernsteinCRPS is the exact CRPS of a Bernstein quantile function for y. With t = F(y) and
// B_{j,d} the Bernstein polynomials:
//
//	crps  = y(2t−1) + Σ_j a_j da_j
//	da_j  = 2/(d+1) [ Σ_{i≤j} B_{i,d+1}(t) − (j+1)/(d+2) ]
//
// It follows from CRPS = 2 ∫ pinball loss dτ. da_j are also the derivatives with respect
// to a_j, since that with respect to t is 0. da may be nil.
//
// Shape: a ascending and da [d+1]. Unit: that of y. Missing: NaN in gives NaN.
// Cost: 60 evaluations of Q.
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1.
func BernsteinCRPS(da, a []float64, y float64) float64 {
	d := len(a) - 1
	t := BernsteinCDF(a, y)
	if math.IsNaN(t) {
		for j := range da {
			da[j] = t
		}
		return t
	}
	var crps, above float64 // above: Σ_{i≤j} B_{i,d+1}(t)
	bernstein(d+1, t, func(j int, b float64) {
		if j > d {
			return
		}
		above += b
		g := 2 / float64(d+1) * (above - float64(j+1)/float64(d+2))
		crps += (a[j] - y) * g // Σ da_j = 1−2t, so subtracting y is exact and avoids cancellation
		if da != nil {
			da[j] = g
		}
	})
	return crps
}

// bernstein calls f with B_{j,d}(t) = C(d,j) t^j (1−t)^(d−j) for j from 0 to d, by the ratio
// of consecutive terms.
func bernstein(d int, t float64, f func(j int, b float64)) {
	if t == 1 {
		for j := range d {
			f(j, 0)
		}
		f(d, 1)
		return
	}
	b := math.Pow(1-t, float64(d))
	for j := 0; j <= d; j++ {
		f(j, b)
		b *= float64(d-j) / float64(j+1) * t / (1 - t)
	}
}

// CensoredBernsteinCRPS is the CRPS of max(X, 0) for y, where X has the Bernstein quantile
// function Q with coefficients a and the distribution function F. The part below 0 is
// subtracted from the score of X:
//
//	crps = BernsteinCRPS(a, max(y,0)) − ∫_{−∞}^0 F² + max(−y, 0)
//	∫_{−∞}^0 F² = −2 ∫_0^{F(0)} t Q(t) dt
//
// Shape, Missing: as BernsteinCRPS. Source: as BernsteinCRPS, by integration over t.
func CensoredBernsteinCRPS(da, a []float64, y float64) float64 {
	crps := BernsteinCRPS(da, a, max(y, 0)) + max(-y, 0)
	if a[0] >= 0 || math.IsNaN(y) {
		return crps
	}
	d := len(a) - 1
	// t B_{j,d} = (j+1)/(d+1) B_{j+1,d+1}, and ∫_0^t B_{j,n} = (1 − Σ_{i≤j} B_{i,n+1}(t)) / (n+1).
	var upTo float64
	bernstein(d+2, BernsteinCDF(a, 0), func(i int, b float64) {
		upTo += b
		if i < 1 || i > d+1 {
			return
		}
		g := 2 * float64(i) / float64(d+1) * max(0, 1-upTo) / float64(d+2)
		crps += a[i-1] * g
		if da != nil {
			da[i-1] += g
		}
	})
	return crps
}

// bernsteinIntegrals returns the integrals of B_{j,n} from 0 to t,
//
//	∫_0^t B_{j,n} = (1 − Σ_{i≤j} B_{i,n+1}(t)) / (n+1)
func bernsteinIntegrals(n int, t float64) []float64 {
	out := make([]float64, n+1)
	var b []float64
	bernstein(n+1, t, func(_ int, v float64) { b = append(b, v) })
	var sum float64
	for j := n; j >= 0; j-- {
		sum += b[j+1]
		out[j] = sum / float64(n+1)
	}
	return out
}

// bernsteinMoments returns mean and standard deviation of X, or of max(X, 0) if censored.
// The square of a Bernstein polynomial is one of twice the degree, with the coefficients
// Σ a_i a_j C(d,i) C(d,j) / C(2d,i+j).
func bernsteinMoments(a []float64, censored bool) (mean, std float64) {
	d := len(a) - 1
	var from float64
	if censored {
		from = BernsteinCDF(a, 0)
	}
	moment := func(c []float64) (sum float64) {
		below := bernsteinIntegrals(len(c)-1, from)
		for j, v := range c {
			sum += v * (1/float64(len(c)) - below[j])
		}
		return sum
	}
	square := make([]float64, 2*d+1)
	for i, v := range a {
		for j, w := range a {
			square[i+j] += v * w * math.Exp(logBinomial(d, i)+logBinomial(d, j)-logBinomial(2*d, i+j))
		}
	}
	if censored && from >= 1 {
		return 0, 0
	}
	return fromRawMoments(moment(a), moment(square))
}

// logBinomial is the logarithm of the binomial coefficient C(n, k).
func logBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// BernsteinPinball returns a function that computes twice the mean pinball loss of Q over
// the probabilities τ_i = i/(levels+1), an approximation of the CRPS (1 % larger for 99
// levels):
//
//	2/levels Σ_i (y − q_i)(τ_i − 1[y < q_i]),   q_i = Q(τ_i), or max(Q(τ_i), 0) if censored
//
// The function fills da with the derivatives with respect to the coefficients unless da is
// nil.
//
// Shape: a and da [degree+1]. Unit: that of y. Missing: NaN in gives NaN.
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1.
func BernsteinPinball(degree, levels int, censored bool) func(da, a []float64, y float64) float64 {
	basis := make([][]float64, levels)
	for i := range basis {
		bernstein(degree, float64(i+1)/float64(levels+1), func(_ int, b float64) { basis[i] = append(basis[i], b) })
	}
	return func(da, a []float64, y float64) float64 {
		clear(da)
		if math.IsNaN(y) {
			for j := range da {
				da[j] = y
			}
			return y
		}
		var sum float64
		for i, b := range basis {
			var q float64
			for j, v := range a {
				q += b[j] * v
			}
			cut := censored && q < 0
			if cut {
				q = 0
			}
			loss, slope := pinball(q, y, float64(i+1)/float64(levels+1))
			sum += loss
			if da == nil || cut {
				continue
			}
			for j := range da {
				da[j] += 2 / float64(levels) * slope * b[j]
			}
		}
		return 2 / float64(levels) * sum
	}
}

// pinball is the pinball loss of the τ quantile q for y, and its derivative with respect to
// q. At q = y the derivative is the mean of both one-sided derivatives.
func pinball(q, y, tau float64) (loss, slope float64) {
	switch d := y - q; {
	case d > 0:
		return tau * d, -tau
	case d < 0:
		return (tau - 1) * d, 1 - tau
	default: // 0 or NaN
		return d, 0.5 - tau
	}
}

// Pinball is the pinball (quantile) loss of the tau quantile q for y:
//
//	(y − q)(τ − 1[y < q])
//
// Unit: that of y. Better: lower. Missing: NaN in gives NaN.
// Source: Koenker and Bassett 1978, doi:10.2307/1913643.
func Pinball(q, y, tau float64) float64 {
	loss, _ := pinball(q, y, tau)
	return loss
}

// PinballSlope is the derivative of Pinball with respect to q; that with respect to y is its negative.
func PinballSlope(q, y, tau float64) float64 {
	_, slope := pinball(q, y, tau)
	return slope
}

// IDs of the families with a degree.
const (
	BernsteinID         = "bernstein"
	censoredBernsteinID = "censored_bernstein"
)

// Bernstein is the family of Bernstein quantile functions of a degree.
//
//	Q(t) = Σ_j a_j C(d,j) t^j (1−t)^(d−j)
//
// Parameters: the degree+1 coefficients, ascending. Source: Bremnes 2020,
// doi:10.1175/MWR-D-19-0227.1.
func Bernstein(degree int) *Family {
	f := bernsteinFamily(degree)
	f.Excess.Family = CensoredBernstein(degree)
	return f
}

// CensoredBernstein is the family of max(X, 0), where X has a Bernstein quantile function.
//
// Parameters: as Bernstein. Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1, for Q.
func CensoredBernstein(degree int) *Family {
	f := bernsteinFamily(degree)
	f.ID, f.Name, f.Positive = censoredBernsteinID, "Bernstein quantile function censored at 0", true
	f.CDF = func(par []float64, x float64) float64 {
		if x < 0 {
			return 0
		}
		return BernsteinCDF(par, x)
	}
	f.Quantile = func(par []float64, p float64) float64 { return max(0, BernsteinQuantile(par, p)) }
	f.CRPS = CensoredBernsteinCRPS
	f.Moments = func(par []float64) (mean, std float64) { return bernsteinMoments(par, true) }
	z := NormalCoefficients(degree)
	f.setStandard = func(par []float64, u float64) {
		for j := range par {
			par[j] = u + z[j]
		}
	}
	f.Excess.Family = f
	return guard(f)
}

// bernsteinFamily makes the uncensored family without Excess.Family.
func bernsteinFamily(degree int) *Family {
	z := NormalCoefficients(degree)
	f := &Family{ID: BernsteinID, Name: "Bernstein quantile function",
		CDF: BernsteinCDF, Quantile: BernsteinQuantile, CRPS: BernsteinCRPS,
		Moments: func(par []float64) (mean, std float64) { return bernsteinMoments(par, false) },
		shortcuts: shortcuts{setMoments: func(par []float64, mean, std float64) {
			for j := range par {
				par[j] = mean + std*z[j]
			}
		}}}
	for j := range degree + 1 {
		f.Parameters, f.Roles = append(f.Parameters, fmt.Sprintf("a_%02d", j)), append(f.Roles, Location)
		f.Excess.Signs = append(f.Excess.Signs, -1)
	}
	return guard(f)
}
