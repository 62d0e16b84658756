// Package fieldmath has the loops over all points of fields that every prediction runs:
// statistics over members, standardisation, and the look at all values. Kernels in C do
// them by vectors, with the bits of the loops in plain Go that stand beside them, judge them
// and take their place without a C compiler.
package fieldmath

import (
	"fmt"
	"math"
	"math/bits"
)

// MeanStd computes mean and standard deviation over members' fields, point by point, in
// double precision:
//
//	mean = (1/M) Σ x_m,  std = √( Σ (x_m−mean)² / (M−ddof) )
//
// The order of the members decides no bit.
//
// Shape: mean and std, which are filled, and each field [point]. Missing: a point missing
// or infinite in one field is missing in both results.
// Errors: panics if M ≤ ddof or a field is too short. Longer ones are looked at as far as mean goes.
func MeanStd(mean, std []float32, fields [][]float32, ddof int) {
	if len(fields) <= ddof {
		panic(fmt.Sprintf("standard deviation over %d members with divisor M-%d", len(fields), ddof))
	}
	for _, f := range fields {
		_ = f[:len(mean)] // C looks at no length
	}
	meanStd(mean, std[:len(mean)], fields, float64(len(fields)-ddof))
}

// Standardise computes (src−mean)/scale in double precision.
//
// Shape: each [point]. Missing: 0.
func Standardise(dst, src []float32, mean, scale []float64) {
	n := len(dst)
	standardise(dst, src[:n], mean[:n], scale[:n])
}

// Scale computes src·r; dst and src are not the same.
//
// Shape: each [point]. Missing: 0.
func Scale(dst, src []float32, r float32) { scale(dst, src[:len(dst)], r) }

// Stats is what is kept of the values of a field. Min, Max and the moments are those of the
// finite values; Min is above Max if there are none.
type Stats struct {
	Points, Missing, Infinite int
	Min, Max, Sum, Squares    float64
	Hash                      uint64 // of all bits; never 0
}

// lanes are sums and hashes side by side, as each step waits for the one before.
const lanes = 8

// lane is a part of a tally.
type lane struct {
	min, max, sum, squares float64
	hash                   uint64
}

// StatsOf counts the values of a field. Two fields of one hash are equal but for a chance
// of their number squared in 2⁶³; zeros of both signs are equal, and NaN of all kinds.
func StatsOf(values []float32) Stats {
	t := Stats{Points: len(values)}
	var l [lanes]lane
	for k := range l {
		l[k] = lane{min: math.Inf(1), max: math.Inf(-1), hash: uint64(len(values) + k)}
	}
	whole := len(values) / lanes * lanes
	countStats(&t, &l, values[:whole])
	plainStats(&t, &l, values[whole:])
	t.Min, t.Max = math.Inf(1), math.Inf(-1)
	for _, x := range l {
		t.Min, t.Max, t.Sum, t.Squares = min(t.Min, x.min), max(t.Max, x.max), t.Sum+x.sum, t.Squares+x.squares
		t.Hash = HashMix(t.Hash, x.hash)
	}
	t.Hash |= 1
	return t
}

// HashMix extends a hash by a value.
//
// Source: the multiplier of PCG (O'Neill 2014), the finaliser of MurmurHash3.
func HashMix(h, x uint64) uint64 {
	h = (h ^ x) * 0x5851f42d4c957f2d
	return h ^ h>>33
}

// Merge adds the tally of another part of the field.
func (t *Stats) Merge(o Stats) {
	t.Points, t.Missing, t.Infinite = t.Points+o.Points, t.Missing+o.Missing, t.Infinite+o.Infinite
	t.Min, t.Max, t.Sum, t.Squares = min(t.Min, o.Min), max(t.Max, o.Max), t.Sum+o.Sum, t.Squares+o.Squares
	t.Hash = HashMix(t.Hash, o.Hash) | 1
}

func plainMeanStd(mean, std []float32, fields [][]float32, divisor float64) {
	terms := make([]float64, len(fields))
	for p := range mean {
		low, high := float64(fields[0][p]), float64(fields[0][p])
		for m, f := range fields {
			x := float64(f[p])
			if x < low {
				low = x
			}
			if x > high {
				high = x
			}
			terms[m] = x
		}
		centre := sumOf(terms, max(math.Abs(low), math.Abs(high))) / float64(len(fields))
		for m, f := range fields {
			d := float64(f[p]) - centre
			terms[m] = float64(d * d)
		}
		mean[p], std[p] = float32(centre), float32(math.Sqrt(sumOf(terms, (high-low)*(high-low))/divisor))
	}
}

// sumOf is a sum whose bits do not depend on the order of its terms, of which none is larger than the largest. They are rounded to
// multiples of a step that is so coarse that their sums are exact: adding and taking away 6·2ᵏ⁺ᵉ does so, for up to 2ᵉ terms
// below 2ᵏ⁺¹. At most 2ᵉ⁻⁵¹ of the largest is lost of each.
//
// Source: Demmel and Nguyen 2013, doi:10.1109/ARITH.2013.9.
func sumOf(terms []float64, largest float64) (sum float64) {
	step := math.Float64frombits(math.Float64bits(largest)&(0x7ff<<52)) * 6 * float64(int(1)<<bits.Len(uint(len(terms)-1)))
	for _, x := range terms {
		sum += (x + step) - step
	}
	return sum
}

func plainStandardise(dst, src []float32, mean, scale []float64) {
	for i, x := range src {
		dst[i] = orZero(float32((float64(x) - mean[i]) / scale[i]))
	}
}

func plainScale(dst, src []float32, r float32) {
	for i, x := range src {
		dst[i] = orZero(x * r)
	}
}

func orZero(x float32) float32 {
	if x != x {
		return 0
	}
	return x
}

func plainStats(t *Stats, l *[lanes]lane, values []float32) {
	for i, v := range values {
		x, bits := &l[i%lanes], math.Float32bits(v)
		switch {
		case v != v:
			t.Missing++
			bits = 0x7fc00000 // one NaN for all
		case v-v != 0:
			t.Infinite++
		default:
			d := float64(v)
			if v == 0 {
				bits = 0 // of both signs
			}
			x.min, x.max = min(x.min, d), max(x.max, d)
			x.sum += d
			x.squares += float64(d * d)
		}
		x.hash = HashMix(x.hash, uint64(bits))
	}
}
