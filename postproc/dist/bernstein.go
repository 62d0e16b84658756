package dist

import "math"

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
