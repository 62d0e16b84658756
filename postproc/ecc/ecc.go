// Package ecc is ensemble copula coupling: it turns the calibrated distribution
// of every point back into members whose order at each point is that of the raw
// members, so that their fields stay physically connected in space and time.
package ecc

import (
	"fmt"
	"math"
	"slices"
)

// Levels are the probabilities i/(n+1), i = 1..n, of n equidistant quantiles.
// Source: Schefzik et al. 2013, doi:10.1214/13-STS443 (ECC-Q).
func Levels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(i+1) / float64(n+1)
	}
	return out
}

// MidLevels are the probabilities (i−½)/n, i = 1..n, whose quantiles have the
// least expected plain CRPS of all n members.
// Source: Bröcker 2012, doi:10.1002/qj.1891.
func MidLevels(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = (float64(i) + 0.5) / float64(n)
	}
	return out
}

// Couple gives ascending quantiles to members in the order of their raw values:
// the member with the smallest raw value gets the smallest quantile. Members of
// equal raw value keep the order of their numbers.
//
// Shape: out, raw, quantiles [member]; out may be quantiles' or raw's own slice
// only if it is not needed any more, so give another.
// Missing: a NaN among raw or quantiles makes all of out NaN.
// Cost: O(M²), no allocation.
func Couple(out, raw, quantiles []float64) {
	if slices.ContainsFunc(raw, math.IsNaN) || slices.ContainsFunc(quantiles, math.IsNaN) {
		for m := range out {
			out[m] = math.NaN()
		}
		return
	}
	for m, x := range raw {
		rank := 0
		for k, v := range raw {
			if v < x || v == x && k < m {
				rank++
			}
		}
		out[m] = quantiles[rank]
	}
}

// Calibrated makes calibrated members of a whole field.
//
//	out_m(p) = quantile(p, levels[rank of raw_m(p) among the members])
//
// Shape: raw and the result [member][point]; levels [member], ascending.
// quantile gives the calibrated distribution's quantile at a point.
// Missing: NaN in one raw member makes the point missing in all.
// Errors: a number of levels other than that of members, fields of unequal length.
func Calibrated(raw [][]float32, levels []float64, quantile func(point int, level float64) float64) ([][]float32, error) {
	n := len(raw)
	if n == 0 || len(levels) != n {
		return nil, fmt.Errorf("ecc: %d levels for %d members", len(levels), n)
	}
	if !slices.IsSorted(levels) {
		return nil, fmt.Errorf("ecc: levels %v do not ascend", levels)
	}
	out := make([][]float32, n)
	for m := range raw {
		if len(raw[m]) != len(raw[0]) {
			return nil, fmt.Errorf("ecc: member %d has %d points, the first %d", m, len(raw[m]), len(raw[0]))
		}
		out[m] = make([]float32, len(raw[m]))
	}
	x, q, y := make([]float64, n), make([]float64, n), make([]float64, n)
	for p := range raw[0] {
		for m := range raw {
			x[m] = float64(raw[m][p])
			q[m] = quantile(p, levels[m])
		}
		Couple(y, x, q)
		for m := range y {
			out[m][p] = float32(y[m])
		}
	}
	return out, nil
}
