// Package bfloat16 converts float32 to and from bfloat16, its upper half.
package bfloat16

import "math"

// NaN is the code of every NaN.
const NaN = 0x7fc0

// Round rounds to nearest, ties to even. Magnitudes of at least 2¹²⁸ − 2¹¹⁹ become infinite.
func Round(x float32) uint16 {
	if x != x {
		return NaN
	}
	// Adding 0x7fff, plus 1 for an odd upper half, carries into the upper half
	// exactly if the value rounds up.
	b := math.Float32bits(x)
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// IsInf reports whether a code is that of an infinity of either sign.
func IsInf(h uint16) bool { return h&0x7fff == 0x7f80 }

// Value returns the value of a code, which is exact.
func Value(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }
