package demo

import "math"

// The truncation and its grid: triangular T21 on 64×32 points, the smallest
// Gaussian grid on which products of two fields are transformed without
// aliasing (3·21+1 = 64 longitudes, (3·21+1)/2 = 32 latitudes).
const (
	trunc  = 21
	nlon   = 64
	nlat   = 32
	npair  = nlat / 2
	npoint = nlat * nlon
	ncoef  = (trunc + 1) * (trunc + 2) / 2
)

// spectrum holds the coefficients of a real field on the sphere,
// m-major: order m from 0, within it degree n from m to trunc. The field is
// Σ aₘₙ Pₘₙ(μ) exp(imλ) over both signs of m. Coefficients with m < 0 are complex conjugates and
// are not stored.
//
// A coefficient of order 0 is real; its imaginary part is 0.
type spectrum [ncoef]complex128

// basis contains the constant tables of the spectral transform.
type basis struct {
	mu   [nlat]float64 // sine of latitude, north to south
	w    [nlat]float64 // Gaussian weights, sum 2
	cos2 [nlat]float64 // cos² of latitude = 1−μ²

	off [trunc + 2]int        // first index of order m
	deg [ncoef]int            // degree n of an index
	eps [ncoef]float64        // √((n²−m²)/(4n²−1))
	p   [npair][ncoef]float64 // Pₘₙ at the northern rows, ∫P² dμ = 1
	h   [npair][ncoef]float64 // (1−μ²) dPₘₙ/dμ
}

// sphere is the shared basis.
var sphere = newBasis()

// newBasis computes the Gaussian latitudes, their weights and the Legendre functions.
//
// The nodes x are the roots of P₃₂, found by Newton's method; the weights are
//
//	w = 2 / ((1−x²) P'₃₂(x)²)
//
// so that the quadrature is exact for polynomials up to degree 63, which products of two fields of
// degree 21 with a test function of degree 21 do not exceed.
//
// Source: Press et al., Numerical Recipes, 3rd ed., section 4.6 (gauleg).
func newBasis() *basis {
	b := new(basis)
	for j := range npair {
		// Newton from Tricomi's estimate of the j-th root of P₃₂.
		x := math.Cos(math.Pi * (float64(j) + 0.75) / (nlat + 0.5))
		var d float64
		for range 100 {
			p0, p1 := 1.0, x
			for n := 2; n <= nlat; n++ {
				p0, p1 = p1, (float64(2*n-1)*x*p1-float64(n-1)*p0)/float64(n)
			}
			d = nlat * (x*p1 - p0) / (x*x - 1)
			step := p1 / d
			x -= step
			if math.Abs(step) < 1e-15 {
				break
			}
		}
		w := 2 / ((1 - x*x) * d * d)
		b.mu[j], b.mu[nlat-1-j] = x, -x
		b.w[j], b.w[nlat-1-j] = w, w
		b.cos2[j], b.cos2[nlat-1-j] = 1-x*x, 1-x*x
	}
	k := 0
	for m := range trunc + 1 {
		b.off[m] = k
		for n := m; n <= trunc; n++ {
			b.deg[k] = n
			b.eps[k] = epsilon(m, n)
			k++
		}
	}
	b.off[trunc+1] = k
	for j := range npair {
		b.legendre(j)
	}
	return b
}

// epsilon is √((n²−m²)/(4n²−1)), the coefficient of μ·Pₘₙ in the recurrences.
//
// Source: Hoskins and Simmons 1975, doi:10.1002/qj.49710142918, for the recurrences with this
// factor.
func epsilon(m, n int) float64 {
	return math.Sqrt(float64(n*n-m*m) / float64(4*n*n-1))
}

// legendre fills the tables of one row: μP_n = ε_{n+1}P_{n+1} + ε_nP_{n−1} upward
// in n from the closed form at n = m, and the derivative from
// (1−μ²)P'_n = (n+1)ε_nP_{n−1} − nε_{n+1}P_{n+1}.
func (b *basis) legendre(j int) {
	x := b.mu[j]
	diagonal := math.Sqrt(0.5) // Pₘₘ
	for m := range trunc + 1 {
		if m > 0 {
			diagonal *= math.Sqrt(float64(2*m+1)/float64(2*m)) * math.Sqrt(1-x*x)
		}
		var p [trunc + 2]float64 // one degree beyond the truncation, for H
		p[m] = diagonal
		for n := m; n <= trunc; n++ {
			below := 0.0
			if n > m {
				below = epsilon(m, n) * p[n-1]
			}
			p[n+1] = (x*p[n] - below) / epsilon(m, n+1)
		}
		for n := m; n <= trunc; n++ {
			k := b.off[m] + n - m
			b.p[j][k] = p[n]
			b.h[j][k] = -float64(n) * epsilon(m, n+1) * p[n+1]
			if n > m {
				b.h[j][k] += float64(n+1) * epsilon(m, n) * p[n-1]
			}
		}
	}
}
