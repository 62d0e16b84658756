// Package fieldmath implements the loops over all points of fields that every
// prediction runs: statistics over members, standardisation, and statistics of all
// values. C kernels compute them with vector instructions. The plain Go loops give
// the same bits; they are the reference of the tests and replace the kernels in
// builds without cgo.
package fieldmath

import (
	"fmt"
	"math"
	"math/bits"
)

// MeanStd computes mean and standard deviation over members, point by point, in
// double precision:
//
//	mean = (1/M) Σ x_m
//	std  = √( Σ (x_m−mean)² / (M−ddof) )
//
// The bits do not depend on the order of the members.
//
// Shape: mean and std (outputs) and each field [point]; longer fields are read up
// to len(mean).
// Missing: a point that is NaN or infinite in one field is NaN in both results.
// Errors: panics if M ≤ ddof or a field is too short.
func MeanStd(mean, std []float32, fields [][]float32, ddof int) {
	if len(fields) <= ddof {
		panic(fmt.Sprintf("standard deviation over %d members with divisor M-%d", len(fields), ddof))
	}
	for _, f := range fields {
		_ = f[:len(mean)] // the C kernel does not check lengths
	}
	meanStd(mean, std[:len(mean)], fields, float64(len(fields)-ddof))
}

// Standardise computes (src−mean)/scale in double precision.
//
// Shape: each [point].
// Missing: NaN gives 0.
func Standardise(dst, src []float32, mean, scale []float64) {
	n := len(dst)
	standardise(dst, src[:n], mean[:n], scale[:n])
}

// Scale computes src·r; dst and src must not overlap.
//
// Shape: each [point].
// Missing: NaN gives 0.
func Scale(dst, src []float32, r float32) { scale(dst, src[:len(dst)], r) }

// Stats holds statistics of the values of a field. Min, Max, Sum and Squares (Σx²)
// are over finite values. If there are none, Min is +Inf and Max −Inf.
type Stats struct {
	Points, Missing, Infinite int // number of all, NaN and infinite values
	Min, Max, Sum, Squares    float64
	Hash                      uint64 // of the bits of all values; never 0
}

// lanes is the number of interleaved sums and hashes, which breaks the dependency
// chain of one sum.
const lanes = 8

// lane is the partial result of one lane.
type lane struct {
	min, max, sum, squares float64
	hash                   uint64
}

// StatsOf computes the statistics of a field. The hash treats zeros of both signs
// as equal, and all NaN.
//
// Among n different fields, two have the same hash with a probability of about
// n²/2⁶⁴.
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

// Merge merges the statistics of another part of the field.
func (t *Stats) Merge(o Stats) {
	t.Points, t.Missing, t.Infinite = t.Points+o.Points, t.Missing+o.Missing, t.Infinite+o.Infinite
	t.Min, t.Max, t.Sum, t.Squares = min(t.Min, o.Min), max(t.Max, o.Max), t.Sum+o.Sum, t.Squares+o.Squares
	t.Hash = HashMix(t.Hash, o.Hash) | 1
}

// plainMeanStd is the reference of the C kernel ens_mean_std.
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

// sumOf sums terms of magnitude up to largest so that the bits do not depend on
// their order. Each term is rounded to a multiple of a step so coarse that all
// partial sums are exact: adding and subtracting 6·2ᵏ⁺ᵉ does that for up to 2ᵉ
// terms below 2ᵏ⁺¹. Each term loses at most 2ᵉ⁻⁵¹ of the largest.
//
// Source: Demmel and Nguyen 2013, doi:10.1109/ARITH.2013.9.
func sumOf(terms []float64, largest float64) (sum float64) {
	step := math.Float64frombits(math.Float64bits(largest)&(0x7ff<<52)) * 6 * float64(int(1)<<bits.Len(uint(len(terms)-1)))
	for _, x := range terms {
		sum += (x + step) - step
	}
	return sum
}

// plainStandardise is the reference of the C kernel ens_standardise.
func plainStandardise(dst, src []float32, mean, scale []float64) {
	for i, x := range src {
		dst[i] = orZero(float32((float64(x) - mean[i]) / scale[i]))
	}
}

// plainScale is the reference of the C kernel ens_scale.
func plainScale(dst, src []float32, r float32) {
	for i, x := range src {
		dst[i] = orZero(x * r)
	}
}

// orZero replaces NaN by 0.
func orZero(x float32) float32 {
	if x != x {
		return 0
	}
	return x
}

// plainStats is the reference of the C kernel that computes a Stats.
func plainStats(t *Stats, l *[lanes]lane, values []float32) {
	for i, v := range values {
		x, bits := &l[i%lanes], math.Float32bits(v)
		switch {
		case v != v:
			t.Missing++
			bits = 0x7fc00000 // one bit pattern for all NaN
		case v-v != 0:
			t.Infinite++
		default:
			d := float64(v)
			if v == 0 {
				bits = 0 // one bit pattern for both zeros
			}
			x.min, x.max = min(x.min, d), max(x.max, d)
			x.sum += d
			x.squares += float64(d * d)
		}
		x.hash = HashMix(x.hash, uint64(bits))
	}
}
