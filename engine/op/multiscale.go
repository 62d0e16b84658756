package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Smoothing is a weighted mean over neighbours, separable in latitude and
// longitude. Each direction has an odd number of weights with sum 1. At the
// border of a field that is not periodic, weights within the field are divided
// by their sum, so that constant fields stay constant.
type Smoothing struct {
	Lat, Lon []float64
	Periodic bool // longitudes wrap around
}

// Gaussian is smoothing by a Gaussian with a standard deviation of sigma grid
// points, truncated at 3·sigma, for fields of rows×columns.
func Gaussian(sigma float64, rows, columns int, periodic bool) Smoothing {
	weights := func(n int) []float64 {
		radius := min(int(math.Ceil(3*sigma)), n-1)
		w := make([]float64, 2*radius+1)
		var sum float64
		for i := range w {
			d := float64(i - radius)
			w[i] = math.Exp(-d * d / (2 * sigma * sigma))
			sum += w[i]
		}
		for i := range w {
			w[i] /= sum
		}
		return w
	}
	return Smoothing{Lat: weights(rows), Lon: weights(columns), Periodic: periodic}
}

// Smooth smooths every level of every channel.
//
// Shape: x [N C D H W] → the same.
// Gradient: by composition.
// Window: that of the weights.
// Errors: ErrShape, also for even numbers of weights.
func Smooth(b *Builder, x Value, s Smoothing) Value {
	if !x.Valid() {
		return x
	}
	shape := x.Shape()
	if len(shape) != 5 || len(s.Lat)%2 == 0 || len(s.Lon)%2 == 0 {
		return b.Fail("smooth", shapeError("x is %v, smoothing has %d×%d weights; want [N C D H W] and odd numbers", shape, len(s.Lat), len(s.Lon)))
	}
	y := Reshape(b, x, Shape{shape[:3].Size(), 1, 1, shape[3], shape[4]})
	y = smoothAxis(b, y, 3, s.Lat, false)
	y = smoothAxis(b, y, 4, s.Lon, s.Periodic)
	return Reshape(b, y, shape)
}

// smoothAxis smooths along one axis by a convolution with constant weights.
func smoothAxis(b *Builder, x Value, axis int, weights []float64, periodic bool) Value {
	if len(weights) == 1 {
		return x
	}
	n, radius := x.Dim(axis), len(weights)/2
	filter, at := make([]float32, len(weights)), Shape{1, 1, 1, 1, 1}
	for i, w := range weights {
		filter[i] = float32(w)
	}
	at[axis] = len(weights)
	var c Conv
	c.Pad[axis-2] = Pad{Size: radius, Periodic: periodic}
	y := Conv3D(b, x, b.Const("", at, filter), c)
	if periodic {
		return y
	}
	within := make([]float32, n)
	for i := range within {
		var sum float64
		for k, w := range weights {
			if j := i + k - radius; j >= 0 && j < n {
				sum += w
			}
		}
		within[i] = float32(1 / sum)
	}
	at = at.Clone()
	at[axis] = n
	return Mul(b, y, b.Const("", at, within))
}

// Scales decomposes a field into scales: S₀x, S₁x − S₀x, …, x − Sₙ₋₁x. The
// smoothings are ordered from the coarsest to the finest. The parts add up to
// x.
func Scales(b *Builder, x Value, smoothings []Smoothing) []Value {
	parts := make([]Value, 0, len(smoothings)+1)
	var before Value
	for k := range len(smoothings) + 1 {
		at := x
		if k < len(smoothings) {
			at = Smooth(b, x, smoothings[k])
		}
		part := at
		if k > 0 {
			part = Sub(b, at, before)
		}
		parts, before = append(parts, part), at
	}
	return parts
}

// MultiScaleCRPS is a weighted sum of the kernel CRPS of the parts that Scales
// gives. weights has one element more than smoothings; nil weights all parts by
// 1. The parts at small scales require members to have the small-scale
// variability of the observation.
//
// Shape: x [N·size C D H W], y [N C D H W] → [N C D H W], to be averaged with
// area weights.
// Unit: that of y. Better: lower.
// Gradient: by composition.
// Errors: ErrShape.
// Source: Lang et al. 2025, arXiv:2506.10868.
func MultiScaleCRPS(b *Builder, x, y Value, size int, f dist.Fairness, smoothings []Smoothing, weights []float64) Value {
	if weights != nil && len(weights) != len(smoothings)+1 {
		return b.Fail("multi_scale_crps", shapeError("%d weights for %d smoothings, want one more weight than smoothings", len(weights), len(smoothings)))
	}
	var total Value
	ys := Scales(b, y, smoothings)
	for k, part := range Scales(b, x, smoothings) {
		score := KernelCRPS(b, part, ys[k], size, f)
		if weights != nil {
			score = Scale(b, score, weights[k])
		}
		if k == 0 {
			total = score
		} else {
			total = Add(b, total, score)
		}
	}
	return total
}
