package bench

import (
	"context"
	"errors"
	"slices"

	"github.com/ensemble-weather/ensemble/engine"
	"github.com/ensemble-weather/ensemble/ensemble/run/setup"
	"github.com/ensemble-weather/ensemble/internal/benchstats"
)

// gradientFLOPs limits the forward FLOPs of the case on which the gradient is checked: the reference is plain
// Go with float64 sums, at about 1.2 GFLOP/s.
const gradientFLOPs = 1.6e9

// gradientCase returns the case itself or, if the reference would take too long, its first sufficient
// reduction: one sample, then smaller crop, base and depth.
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

// gradientDraws is the number of random inputs over which the gradient's error is computed. Rounding can move
// a value across the kink of a ReLU, a maximum or the loss, which changes a single gradient by far more than
// rounding itself, in every implementation. The median is robust against it.
const gradientDraws = 5

// gradientError is the relative error of the gradient with respect to all parameters,
//
//	‖g − g64‖₂ / ‖g64‖₂
//
// where g64 is the reference in float64 with the same parameters, input and target; the median over
// gradientDraws draws.
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

// gradients returns the gradients of the first step, one per draw of the inputs.
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
