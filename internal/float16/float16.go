// Package float16 converts numbers of IEEE 754-2019 binary16 (table 3.5): 1 sign
// bit, 5 exponent bits, 10 fraction bits.
package float16

import "math"

// Limits of binary16.
const (
	MantissaBits    = 11      // bits of the significand, including the implicit one
	Max             = 65504   // largest finite number
	SmallestNonzero = 0x1p-24 // smallest positive number, and the spacing of subnormal numbers
)

// FromBits returns the number with the given bit pattern.
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

// Round rounds x to the nearest binary16 number, ties to even. Numbers beyond Max
// give ±Inf.
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

// ToBits returns the bit pattern of the binary16 number nearest to x.
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
