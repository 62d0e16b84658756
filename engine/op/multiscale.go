package op

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Smoothing is a mean over neighbours with weights along latitude and along longitude, of which each has
// an odd number and the sum 1. Where there is nothing beyond the field, the weights within it
// are divided by their sum, so that constant fields stay.
type Smoothing struct {
	Lat, Lon []float64
	Periodic bool // longitudes wrap around
}

// Gaussian is smoothing by a Gaussian with a standard deviation of so many points, cut off at three
// of them, for fields of rows×columns.
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

// Smooth gives smooth fields, plane by plane.
//
// Shape: x [N C D H W] → the same. Gradient: by composition.
// Window: that of the weights. Errors: ErrShape; also for even numbers of weights.
func Smooth(b *Builder, x Value, s Smoothing) Value {
	if !x.Valid() {
		return x
	}
	shape := x.Shape()
	if len(shape) != 5 || len(s.Lat)%2 == 0 || len(s.Lon)%2 == 0 {
		return b.Fail("smooth", shapeError("%v by %d×%d weights, want odd numbers", shape, len(s.Lat), len(s.Lon)))
	}
	y := Reshape(b, x, Shape{shape[:3].Size(), 1, 1, shape[3], shape[4]})
	y = smoothAxis(b, y, 3, s.Lat, false)
	y = smoothAxis(b, y, 4, s.Lon, s.Periodic)
	return Reshape(b, y, shape)
}

// smoothAxis smooths planes along one axis.
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

// Scales gives what a field has at each of several scales, S_k x − S_(k−1) x with S_(−1) = 0 and the identity
// behind the last: parts that add up to x. Smoothings come from the coarsest to the finest.
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

// MultiScaleCRPS is the sum of the kernel CRPS at several scales with weights, one more than
// there are smoothings (nil: all 1); see Scales and KernelCRPS. It asks members for the variability of
// the observation at small scales too.
//
// Shape: x [N·size C D H W], y [N C D H W] → [N C D H W], to be averaged with weights of areas.
// Gradient: by composition. Errors: ErrShape.
// Source: Lang et al. 2025, arXiv:2506.10868.
func MultiScaleCRPS(b *Builder, x, y Value, size int, f dist.Fairness, smoothings []Smoothing, weights []float64) Value {
	if weights != nil && len(weights) != len(smoothings)+1 {
		return b.Fail("multi_scale_crps", shapeError("%d weights of %d smoothings and the rest", len(weights), len(smoothings)))
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
