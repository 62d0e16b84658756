package bench

import (
	"context"
	"errors"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// Bounds of the work of one forward pass for which the gradient is judged: the
// reference is plain Go with float64 sums, about 1.2 GFLOP a second.
const gradientFLOPs = 1.6e9

// gradientCase is the case itself or, if the reference would take too long, the
// first reduction of it that does not: one sample, then a smaller crop, base and
// depth.
func (k Case) gradientCase() Case {
	for _, reduce := range []func(*Case){
		func(*Case) {},
		func(k *Case) { k.Batch = 1 },
		func(k *Case) { k.Crop = setup.Crop{Height: min(k.Crop.Height, 64), Width: min(k.Crop.Width, 64)} },
		func(k *Case) { k.Base = min(k.Base, 8) },
		func(k *Case) { k.Crop = setup.Crop{Height: min(k.Crop.Height, 32), Width: min(k.Crop.Width, 32)} },
		func(k *Case) { k.Depth = min(k.Depth, 3) },
		func(k *Case) { k.Base = min(k.Base, 4) },
	} {
		reduce(&k)
		if n, err := k.FLOPs(); err != nil || n <= gradientFLOPs {
			break
		}
	}
	return k
}

// gradientDraws is the number of random inputs over which the gradient's distance
// is taken: a value that rounds to the other side of a ReLU, of a maximum or of
// the loss's sign moves a single gradient by far more than rounding does, on
// every implementation, and the median does not see it.
const gradientDraws = 5

// gradientError is the relative distance |g − g64|₂ / |g64|₂ of the gradient with
// respect to all parameters from the one of the reference in float64, both with
// the same parameters, input and target: the median over gradientDraws draws.
func (k Case) gradientError(ctx context.Context) (float64, error) {
	ours, err := k.gradients(ctx, k.Options(false))
	if err != nil {
		return 0, err
	}
	judge, err := k.gradients(ctx, engine.Options{Device: engine.Device{Backend: "ref"}, Numerics: engine.Numerics{Float64: true}})
	if err != nil {
		return 0, err
	}
	var d []float64
	for i := range ours {
		d = append(d, benchstats.RelativeDistance(ours[i], judge[i]))
	}
	slices.Sort(d)
	return d[len(d)/2], nil
}

// gradients are those of the first step, one for every draw of the inputs.
func (k Case) gradients(ctx context.Context, o engine.Options) ([][]float32, error) {
	s, err := k.compile(true, o)
	if err != nil {
		return nil, err
	}
	var all [][]float32
	for n := range uint64(gradientDraws) {
		s.draw(n)
		if err = s.plan.Run(ctx, 0); err != nil {
			break
		}
		all = append(all, slices.Clone(s.plan.Store().Grads()))
	}
	return all, errors.Join(err, s.Close())
}
