package run

import (
	"context"
	"errors"
	"math"

	"github.com/ensemble-weather/ensemble/engine"
)

// Bounds of the work of one forward pass for which the gradient is judged: the
// reference is plain Go with float64 sums, about 0.3 GFLOP a second.
const gradientFLOPs = 1.6e9

// gradientCase is the case itself or, if the reference would take too long, the
// first reduction of it that does not: one sample, then a smaller crop, base and
// depth.
func (c BenchCase) gradientCase() BenchCase {
	for _, reduce := range []func(*BenchCase){
		func(*BenchCase) {},
		func(c *BenchCase) { c.Batch = 1 },
		func(c *BenchCase) { c.Crop = Crop{min(c.Crop.Height, 64), min(c.Crop.Width, 64)} },
		func(c *BenchCase) { c.Base = min(c.Base, 8) },
		func(c *BenchCase) { c.Crop = Crop{min(c.Crop.Height, 32), min(c.Crop.Width, 32)} },
		func(c *BenchCase) { c.Depth = min(c.Depth, 3) },
		func(c *BenchCase) { c.Base = min(c.Base, 4) },
	} {
		reduce(&c)
		if n, err := c.FLOPs(); err != nil || n <= gradientFLOPs {
			break
		}
	}
	return c
}

// gradientError is the relative distance |g − g64|₂ / |g64|₂ of the gradient with
// respect to all parameters from the one of the reference in float64, both with
// the same parameters, input and target.
func (c BenchCase) gradientError(ctx context.Context) (float64, error) {
	ours, err := c.gradient(ctx, c.Options(false))
	if err != nil {
		return 0, err
	}
	judge, err := c.gradient(ctx, engine.Options{Backend: "ref", Float64: true})
	if err != nil {
		return 0, err
	}
	return distance(ours, judge), nil
}

// distance is |x − y|₂ / |y|₂.
func distance(x, y []float32) float64 {
	var diff, size float64
	for i, v := range y {
		d := float64(x[i]) - float64(v)
		diff += d * d
		size += float64(v) * float64(v)
	}
	return math.Sqrt(diff / size)
}

// gradient is that of the first step.
func (c BenchCase) gradient(ctx context.Context, o engine.Options) ([]float32, error) {
	s, err := c.compile(true, o)
	if err != nil {
		return nil, err
	}
	err = s.plan.Run(ctx, 0)
	return s.plan.Store().Grads(), errors.Join(err, s.Close())
}
