package demo

import "math"

// quarter is a quarter of the row length. The transforms are radix 4 with three stages for 4³ points.
const quarter = nlon / 4

// Index order of the first stage: base-4 digits reversed. The inverse transform counts wavenumbers
// from the other end.
var forwardOrder, inverseOrder = func() (to, from [nlon]uint8) {
	for i := range nlon {
		place := i%4*quarter + i/4%4*4 + i/quarter
		to[i], from[i] = uint8(place), uint8((nlon-place)%nlon)
	}
	return to, from
}()

// twiddles returns the twiddle factors of a stage: e^(−iπj/2m), its square and its cube for
// j = 0…m−1. They are computed as products of the first factor. This method must not change, because
// the generated data are chaotic and depend on each bit.
//
// Entries from m on are 0 and are not used.
func twiddles(m int) [quarter][3]complex128 {
	var out [quarter][3]complex128
	sin, cos := math.Sincos((-math.Pi / 2) / float64(m))
	one := complex(cos, sin)
	two := one * one
	three := two * one
	w := [3]complex128{1, 1, 1}
	for j := range m {
		out[j] = w
		w[0] *= one
		w[1] *= two
		w[2] *= three
	}
	return out
}

var twiddles4, twiddles16 = twiddles(4), twiddles(quarter)

// fourier64 transforms a row in place without normalisation: with forwardOrder to
// Σ x_k e^(−2πijk/n), with inverseOrder to Σ x_k e^(2πijk/n). It takes more than half of the time of
// a time step. Its factors and index orders are therefore computed once.
//
// Source: Cooley and Tukey 1965, doi:10.1090/S0025-5718-1965-0178586-1.
func fourier64(x *[nlon]complex128, order *[nlon]uint8) {
	var y [nlon]complex128
	for k := 0; k < nlon; k += 4 {
		a, b, c, d := x[order[k]%nlon], x[order[k+1]%nlon], x[order[k+2]%nlon], x[order[k+3]%nlon]
		y[k], y[k+1], y[k+2], y[k+3] = butterfly(a, b, c, d)
	}
	for k := 0; k < nlon; k += quarter {
		z := (*[quarter]complex128)(y[k:])
		for j := range 4 {
			w := &twiddles4[j]
			z[j], z[j+4], z[j+8], z[j+12] = butterfly(z[j], z[j+4]*w[0], z[j+8]*w[1], z[j+12]*w[2])
		}
	}
	for j := range quarter {
		w := &twiddles16[j]
		x[j], x[j+quarter], x[j+2*quarter], x[j+3*quarter] = butterfly(y[j], y[j+quarter]*w[0], y[j+2*quarter]*w[1], y[j+3*quarter]*w[2])
	}
}

// butterfly computes the transform of four values. They are Σ_k x_k (−i)^(j·k) for j = 0…3:
//
//	a + b + c + d,   a − ib − c + id,   a − b + c − d,   a + ib − c − id
//
// Multiplication by −i exchanges the parts of a number, so it needs no product.
func butterfly(a, b, c, d complex128) (_, _, _, _ complex128) {
	t, v := b+d, b-d
	v = complex(imag(v), -real(v))
	return a + c + t, a - c + v, a + c - t, a - c - v
}
