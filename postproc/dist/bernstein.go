package dist

import (
	"fmt"
	"math"
)

// BernsteinQuantile is the quantile function of the polynomial with Bernstein
// coefficients a of degree d:
//
//	Q(t) = Σ_j a_j C(d,j) t^j (1−t)^(d−j)
//
// It rises if the coefficients do. Its mean is the mean of the coefficients.
//
// Shape: a [d+1], d ≥ 0. Unit: that of a. NaN for t outside [0, 1].
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

// BernsteinCDF is the probability t with Q(t) = x: 0 below a[0], 1 above the last
// coefficient. a is ascending.
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
	for range 60 { // halving: below 1e-16 of the probability
		mid := (low + high) / 2
		if BernsteinQuantile(a, mid) < x {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// BernsteinCRPS is the exact CRPS of a Bernstein quantile function against y. With
// t the probability of y and B_{j,d} the polynomials:
//
//	crps  = y(2t−1) + Σ_j a_j da_j
//	da_j  = 2/(d+1) [ Σ_{i≤j} B_{i,d+1}(t) − (j+1)/(d+2) ]
//
// da_j are the derivatives: that by t is 0. da may be nil.
//
// Shape: a ascending and da [d+1]. Unit: that of y. Missing: NaN in gives NaN.
// Cost: 60 evaluations of Q.
// Source: Bremnes 2020, doi:10.1175/MWR-D-19-0227.1; CRPS as twice the integral of the
// pinball loss over all levels.
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
		crps += (a[j] - y) * g // Σ da_j = 1−2t: y shifts nothing, but keeps digits
		if da != nil {
			da[j] = g
		}
	})
	return crps
}

// bernstein calls f with B_{j,d}(t) for j from 0 to d.
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

// CensoredBernsteinCRPS is the CRPS of max(X, 0) against y, X with the Bernstein quantile
// function Q of coefficients a; F its distribution function. What lies below 0 is taken from
// the score of X:
//
//	crps = BernsteinCRPS(a, max(y,0)) − ∫_{−∞}^0 F² + max(−y, 0)
//	∫_{−∞}^0 F² = −2 ∫_0^{F(0)} t Q(t) dt
//
// Shape, missing: as BernsteinCRPS. Source: as there, by integration in t.
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

// bernsteinIntegrals are the integrals of B_{j,n} from 0 to t.
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

// bernsteinMoments are mean and standard deviation of max(X, 0) if that is asked for, else of
// X. The square of a Bernstein polynomial is one of twice the degree.
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

// logBinomial is the logarithm of a binomial coefficient.
func logBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// BernsteinPinball gives the function of the mean pinball loss of Q over the levels
// i/(levels+1), times 2, which makes it nearly the CRPS (1 % more at 99 levels):
//
//	2/levels Σ_i (y − q_i)(τ_i − 1[y < q_i]),   q_i = Q(τ_i), or max(Q(τ_i), 0) if it is censored
//
// The function fills da with the derivatives by the coefficients unless it is nil.
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

// pinball is the pinball loss of a quantile q of level tau against y, and its derivative by q,
// which where both are equal is the mean of both sides.
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

// Pinball is the pinball loss (y − q)(tau − 1[y < q]) of a quantile q of level tau against y.
//
// Source: Koenker and Bassett 1978, doi:10.2307/1913643.
func Pinball(q, y, tau float64) float64 {
	loss, _ := pinball(q, y, tau)
	return loss
}

// PinballSlope is its derivative by q; that by y is the negative of it.
func PinballSlope(q, y, tau float64) float64 {
	_, slope := pinball(q, y, tau)
	return slope
}

// Names of families with a size.
const (
	BernsteinID         = "bernstein"
	censoredBernsteinID = "censored_bernstein"
)

// Bernstein is the family of Bernstein quantile functions of a degree, with the coefficients
// as its parameters.
func Bernstein(degree int) *Family {
	f := bernsteinFamily(degree)
	f.Excess.Family = CensoredBernstein(degree)
	return f
}

// CensoredBernstein is that of max(X, 0), X with a Bernstein quantile function.
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
	return f
}

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
	return f
}
