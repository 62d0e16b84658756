package demo

import (
	"gonum.org/v1/gonum/dsp/fourier"
)

// transform converts between spectral and grid-point fields. It has its own buffers and must not be
// shared between goroutines. The time step has a fused version in model.go.
//
// Source: Orszag 1970, doi:10.1175/1520-0469(1970)027<0890:TMFTCO>2.0.CO;2.
type transform struct {
	fft  *fourier.FFT
	row  [nlon]float64
	half [nlon/2 + 1]complex128
	four [nlat][trunc + 1]complex128
}

// newTransform allocates the work space of the Fourier transform.
func newTransform() *transform { return &transform{fft: fourier.NewFFT(nlon)} }

// toGrid evaluates a spectrum.
//
// It is a Legendre sum for each row and order, then a Fourier transform for each row: O(N³) in the
// truncation N.
//
// Shape: dst [nlat*nlon], rows north to south.
func (t *transform) toGrid(dst []float64, s *spectrum) {
	t.legendre(&sphere.p, s, 1)
	t.rowsToGrid(dst, nil)
}

// wind evaluates the rotational wind of a streamfunction.
//
//	u = −(1/a) ∂ψ/∂φ,   v = 1/(a cos φ) ∂ψ/∂λ
//
// The table h has (1−μ²) dP/dμ = cos φ dP/dφ, hence the division by cos φ in both.
//
// Shape: u, v [nlat*nlon]. Unit: m s-1 for psi in m2 s-1.
func (t *transform) wind(u, v []float64, psi *spectrum) {
	var scale [nlat]float64
	for j := range scale {
		scale[j] = 1 / (earthRadius * sqrt(sphere.cos2[j]))
	}
	var ddlon spectrum
	for m := range trunc + 1 {
		for k := sphere.off[m]; k < sphere.off[m+1]; k++ {
			ddlon[k] = psi[k] * complex(0, float64(m))
		}
	}
	t.legendre(&sphere.p, &ddlon, 1)
	t.rowsToGrid(v, &scale)
	t.legendre(&sphere.h, psi, -1)
	for j := range scale {
		scale[j] = -scale[j]
	}
	t.rowsToGrid(u, &scale)
}

// legendre sums over degree; parity is that of the table: +1 for P, whose
// functions with n−m even are symmetric about the equator, −1 for H.
func (t *transform) legendre(table *[npair][ncoef]float64, s *spectrum, parity float64) {
	for j := range npair {
		p := &table[j]
		for m := range trunc + 1 {
			var even, odd complex128
			for k := sphere.off[m]; k < sphere.off[m+1]; k += 2 {
				even += complex(p[k], 0) * s[k]
			}
			for k := sphere.off[m] + 1; k < sphere.off[m+1]; k += 2 {
				odd += complex(p[k], 0) * s[k]
			}
			t.four[j][m] = even + odd
			t.four[nlat-1-j][m] = complex(parity, 0) * (even - odd)
		}
	}
}

// rowsToGrid transforms the sums of legendre to grid values, each row multiplied by its scale; nil
// is 1.
func (t *transform) rowsToGrid(dst []float64, scale *[nlat]float64) {
	for j := range nlat {
		copy(t.half[:], t.four[j][:])
		clear(t.half[trunc+1:]) // toSpectrum leaves waves beyond the truncation here
		t.fft.Sequence(t.row[:], t.half[:])
		if scale != nil {
			for i := range t.row {
				t.row[i] *= scale[j]
			}
		}
		copy(dst[j*nlon:], t.row[:])
	}
}

// toSpectrum projects a grid field onto the truncation.
//
//	sₘₙ = Σ_j w_j Pₘₙ(μ_j) · (1/nlon) Σ_i g_ij exp(−imλ_i)
//
// Gaussian quadrature is exact for fields of the truncation, so toSpectrum inverts toGrid up to
// rounding. Waves beyond it are dropped.
//
// Shape: g [nlat*nlon], rows north to south.
func (t *transform) toSpectrum(s *spectrum, g []float64) {
	*s = spectrum{}
	for j := range nlat {
		t.fft.Coefficients(t.half[:], g[j*nlon:(j+1)*nlon])
		w := complex(sphere.w[j]/nlon, 0)
		for m := range t.four[j] {
			t.four[j][m] = t.half[m] * w
		}
	}
	for j := range npair {
		p := &sphere.p[j]
		for m := range trunc + 1 {
			north, south := t.four[j][m], t.four[nlat-1-j][m]
			for k := sphere.off[m]; k < sphere.off[m+1]; k += 2 {
				s[k] += complex(p[k], 0) * (north + south)
			}
			for k := sphere.off[m] + 1; k < sphere.off[m+1]; k += 2 {
				s[k] += complex(p[k], 0) * (north - south)
			}
		}
	}
}

// meanSquare is the global mean of the square of a field, by Parseval:
// ½ Σ|aₘₙ|² with orders m > 0 counted twice.
func meanSquare(s *spectrum) float64 {
	var zonal, waves float64
	for k, c := range s {
		q := real(c)*real(c) + imag(c)*imag(c)
		if k < sphere.off[1] {
			zonal += q
		} else {
			waves += q
		}
	}
	return zonal/2 + waves
}
