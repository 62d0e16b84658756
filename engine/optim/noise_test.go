package optim

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The oracle: mean squared norms 1.75 of 4 samples and 0.4375 of 32 give a noise scale of 24 samples.
func TestNoiseScale(t *testing.T) {
	var n GradientNoise
	n.Add(1.25, .4375)
	n.Add(2.25, .4375)
	if scale, ok := n.Scale(4, 32); !ok || math.Abs(scale-24) > 1e-12 {
		t.Errorf("noise scale %g, %v, want 24", scale, ok)
	}
	for _, c := range []struct {
		n        GradientNoise
		b, large int
	}{{GradientNoise{}, 4, 32}, {n, 4, 4}, {n, 0, 4}, {GradientNoise{Small: 8, Large: 1, Steps: 1}, 4, 32}, {GradientNoise{Small: math.NaN(), Steps: 1}, 4, 32}} {
		if scale, ok := c.n.Scale(c.b, c.large); ok {
			t.Errorf("%+v of %d and %d samples: noise scale %g", c.n, c.b, c.large, scale)
		}
	}
}

// Gradients of samples with a known mean and covariance give their noise scale.
func TestNoiseScaleOfSamples(t *testing.T) {
	const size, batches, b = 20, 8, 3
	r := rand.New(rand.NewPCG(1, 2))
	var n GradientNoise
	for range 2000 {
		var sum [size]float64
		small := 0.0
		for range batches {
			var mean [size]float64
			for range b {
				for i := range mean {
					mean[i] += (.5 + 2*r.NormFloat64()) / b
				}
			}
			for i, v := range mean {
				small += v * v / batches
				sum[i] += v / batches
			}
		}
		large := 0.0
		for _, v := range sum {
			large += v * v
		}
		n.Add(small, large)
	}
	// tr Σ = 20·4, |G|² = 20·0.25
	if scale, ok := n.Scale(b, b*batches); !ok || math.Abs(scale-16) > 1 {
		t.Errorf("noise scale %g, want 16", scale)
	}
}
