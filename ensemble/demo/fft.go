package demo

import "math"

// fft64 is the discrete Fourier transform of the 64 points of a latitude,
//
//	dst[k] = Σⱼ src[j] exp(−2πi jk/64),
//
// as 8×8 points of radix 8: four times as fast as the general transform of
// gonum, which judges it in the test and does all transforms outside the time
// step. Three quarters of the demo's time would go there.
//
// The inverse (unnormalised) is the transform of the same points stored backwards,
// point j at (64−j) mod 64.
//
// Shape: dst and src must not overlap.
func fft64(dst, src *[nlon]complex128) {
	var t [nlon]complex128
	for b := range 8 {
		w, o := twiddle[8*b:8*b+8:8*b+8], t[8*b:8*b+8:8*b+8]
		y0, y1, y2, y3, y4, y5, y6, y7 := dft8(src[b], src[b+8], src[b+16], src[b+24], src[b+32], src[b+40], src[b+48], src[b+56])
		o[0], o[1], o[2], o[3] = y0, times(y1, w[1]), times(y2, w[2]), times(y3, w[3])
		o[4], o[5], o[6], o[7] = times(y4, w[4]), times(y5, w[5]), times(y6, w[6]), times(y7, w[7])
	}
	for k := range 8 {
		dst[k], dst[k+8], dst[k+16], dst[k+24], dst[k+32], dst[k+40], dst[k+48], dst[k+56] =
			dft8(t[k], t[k+8], t[k+16], t[k+24], t[k+32], t[k+40], t[k+48], t[k+56])
	}
}

// twiddle holds exp(−2πi bk/64) at 8b+k.
var twiddle = func() (w [nlon]complex128) {
	for b := range 8 {
		for k := range 8 {
			s, c := math.Sincos(-2 * math.Pi * float64(b*k) / nlon)
			w[8*b+k] = complex(c, s)
		}
	}
	return w
}()

// times is the product without the care for infinities that Go's own takes.
func times(a, b complex128) complex128 {
	return complex(real(a)*real(b)-imag(a)*imag(b), real(a)*imag(b)+imag(a)*real(b))
}

// dft8 is the transform of eight points: two of four, joined.
func dft8(x0, x1, x2, x3, x4, x5, x6, x7 complex128) (y0, y1, y2, y3, y4, y5, y6, y7 complex128) {
	const r = math.Sqrt2 / 2
	a0, a1, a2, a3 := x0+x4, x0-x4, x2+x6, x2-x6
	a3 = complex(imag(a3), -real(a3)) // times −i
	e0, e1, e2, e3 := a0+a2, a1+a3, a0-a2, a1-a3
	b0, b1, b2, b3 := x1+x5, x1-x5, x3+x7, x3-x7
	b3 = complex(imag(b3), -real(b3))
	o0, o1, o2, o3 := b0+b2, b1+b3, b0-b2, b1-b3
	o1 = complex(r*(real(o1)+imag(o1)), r*(imag(o1)-real(o1))) // times exp(−iπ/4)
	o2 = complex(imag(o2), -real(o2))
	o3 = complex(r*(imag(o3)-real(o3)), -r*(real(o3)+imag(o3))) // times exp(−3iπ/4)
	return e0 + o0, e1 + o1, e2 + o2, e3 + o3, e0 - o0, e1 - o1, e2 - o2, e3 - o3
}
