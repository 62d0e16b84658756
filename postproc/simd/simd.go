package simd

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Most is how many members the kernels take; more are left to plain loops.
const Most = 1024

// CRPS is the CRPS of the members at every point, plain, fair or in between
// (dist.KernelCRPS):
//
//	dst[p] = (1/M) Σ_m |x[m][p]−y[p]| − (1−ε)/(2M(M−1)) Σ_mΣ_n |x[m][p]−x[n][p]|
//
// Shape: x [member][point], M ≥ 1, ≥ 2 unless f is dist.Plain; dst and y [point].
// Missing: NaN in gives NaN. Error: some 1e-6 of the members' distances.
// Cost: for 10 members about 100 vector operations for a vector of points.
func CRPS(dst []float32, x [][]float32, y []float32, f dist.Fairness) {
	check(x, len(y), len(dst))
	pair := math.NaN() // the weight of Σ_k (2k−M+1) x_(k)
	switch m := float64(len(x)); {
	case m > 1:
		pair = (1 - f(len(x))) / (m * (m - 1))
	case f(1) == 1:
		pair = 0
	}
	if !crpsVectors(dst, x, y, float32(pair)) {
		crps(dst, x, y, float32(pair))
	}
}

// MeanStd is the mean and the standard deviation of the members at every point:
//
//	mean = (1/M) Σ x_m,  std = √( Σ (x_m−mean)² / (M−ddof) )
//
// Shape: x [member][point], M > ddof; mean and std [point]. Missing: NaN in gives NaN.
func MeanStd(mean, std []float32, x [][]float32, ddof int) {
	check(x, len(mean), len(std))
	if len(x) <= ddof {
		panic(fmt.Sprintf("simd: standard deviation over %d members with divisor M-%d", len(x), ddof))
	}
	inverse := 1 / float32(len(x)-ddof)
	if !meanStdVectors(mean, std, x, inverse) {
		meanStd(mean, std, x, inverse)
	}
}

// Quantiles are quantiles of the members at every point, by linear interpolation between
// order statistics (R type 7, NumPy's default).
//
// Shape: x [member][point], M ≥ 1; levels in [0, 1]; dst [level][point]. Missing: NaN in
// gives NaN.
func Quantiles(dst [][]float32, x [][]float32, levels []float64) {
	if len(dst) != len(levels) {
		panic(fmt.Sprintf("simd: %d fields for %d levels", len(dst), len(levels)))
	}
	if len(levels) == 0 {
		return
	}
	at, part := make([]int, len(levels)), make([]float32, len(levels))
	for q, p := range levels {
		if !(p >= 0 && p <= 1) {
			panic(fmt.Sprintf("simd: quantile of level %g", p))
		}
		place := p * float64(len(x)-1)
		at[q] = int(place)
		part[q] = float32(place - float64(at[q]))
		check(x, len(dst[q]), len(dst[q]))
	}
	if !quantilesVectors(dst, x, at, part) {
		quantiles(dst, x, at, part)
	}
}

// check panics unless all fields have n points.
func check(x [][]float32, n, other int) {
	if len(x) == 0 || n != other || slices.ContainsFunc(x, func(f []float32) bool { return len(f) != n }) {
		panic(fmt.Sprintf("simd: %d members, or fields that have not %d points", len(x), n))
	}
}

func crps(dst []float32, x [][]float32, y []float32, pair float32) {
	m := len(x)
	v := make([]float32, m)
	for p, o := range y {
		var near, far float32
		bad := false
		for i, f := range x {
			d := f[p] - o
			v[i] = d
			near += float32(math.Abs(float64(d)))
			bad = bad || d != d
		}
		slices.Sort(v)
		for i := range m / 2 {
			far += float32(m-1-2*i) * (v[m-1-i] - v[i])
		}
		dst[p] = near/float32(m) - far*pair
		if bad {
			dst[p] = float32(math.NaN())
		}
	}
}

func meanStd(mean, std []float32, x [][]float32, inverse float32) {
	part := 1 / float32(len(x))
	for p, first := range x[0] {
		var sum, square float32
		for _, f := range x[1:] {
			sum += f[p] - first
		}
		sum = first + sum*part
		for _, f := range x {
			square += (f[p] - sum) * (f[p] - sum)
		}
		mean[p], std[p] = sum, float32(math.Sqrt(float64(square*inverse)))
	}
}

func quantiles(dst [][]float32, x [][]float32, at []int, part []float32) {
	v := make([]float32, len(x))
	for p := range dst[0] {
		bad := false
		for i, f := range x {
			v[i] = f[p]
			bad = bad || f[p] != f[p]
		}
		slices.Sort(v)
		for q, i := range at {
			r := v[i]
			if part[q] != 0 {
				r += part[q] * (v[i+1] - r)
			}
			if bad {
				r = float32(math.NaN())
			}
			dst[q][p] = r
		}
	}
}
