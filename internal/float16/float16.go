// Package float16 has the numbers of 16 bits of IEEE 754-2019, table 3.5, binary16.
package float16

import "math"

// The numbers: Bits of mantissa with the leading one, Max the largest, and Least the distance of
// the smallest ones.
const (
	MantissaBits    = 11
	Max             = 65504
	SmallestNonzero = 0x1p-24
)

// FromBits is the number of these bits.
func FromBits(bits uint16) float64 {
	sign := 1.0
	if bits&0x8000 != 0 {
		sign = -1
	}
	exponent, fraction := int(bits>>10&31), float64(bits&1023)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// Round is the number nearest to x, ties to even; infinite if that is too large.
func Round(x float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, e := math.Frexp(x)
	unit := math.Ldexp(1, max(e-MantissaBits, -24))
	y := math.RoundToEven(x/unit) * unit
	if math.Abs(y) > Max {
		return math.Inf(int(math.Copysign(1, x)))
	}
	return y
}

// ToBits is the bits of the number nearest to x.
func ToBits(x float64) uint16 {
	y := Round(x)
	var sign uint16
	if math.Signbit(y) {
		sign = 0x8000
	}
	y = math.Abs(y)
	switch {
	case math.IsNaN(y):
		return 0x7e00
	case math.IsInf(y, 1):
		return sign | 0x7c00
	case y < 0x1p-14:
		return sign | uint16(y/SmallestNonzero)
	}
	frac, e := math.Frexp(y) // y = 2·frac·2ᵉ⁻¹
	return sign | uint16(e+14)<<10 | uint16(frac*0x1p11)&1023
}
