package train

import (
	"github.com/ensemble-weather/ensemble/engine/optim"
	"github.com/ensemble-weather/ensemble/ensemble/config"
)

// optimizerOptions returns the options of the optimiser of a network with stepsPerEpoch steps in an epoch.
func (n *currentNetwork) optimizerOptions(stepsPerEpoch int) optim.Options {
	o := optim.Options{
		Kind: optim.Kind(n.cfg.Optimizer), Decay: n.cfg.WeightDecay, Clip: n.cfg.Clip, Threads: n.cfg.Threads, Momentum: 0.9,
		Trust: n.cfg.TrustCoefficient, EMA: n.cfg.EMA.DecayOf(stepsPerEpoch),
	}
	if n.cfg.Compression.Momentum > 0 { // applied before gradients are exchanged
		o.Momentum = 0
	}
	if n.curvature != nil {
		o.Kind, o.Preconditioner = optim.Kind(n.cfg.KFAC.Rule), n.curvature.preconditioner
	}
	if n.cfg.EMA.IsEnabled() {
		o.Average = n.evalStore
	}
	return o
}

// schedule returns the learning-rate schedule of a network. For a batch of B samples per step the largest
// rate is
//
//	learning_rate · k,  k = B/B₀ (linear scaling) or √(B/B₀), 1 without scaling
//
// with the base batch B₀, and the warm-up starts at rate/k.
//
// Source: Goyal et al. 2017, arXiv:1706.02677 (linear scaling and warm-up).
func schedule(c config.Training, perEpoch uint64, plateau *optim.PlateauState) optim.Schedule {
	base := c.BaseBatchSize
	if base == 0 {
		base = c.BatchSize
	}
	scaling, from := optim.BatchScaling(c.LearningRateScaling), 0.0
	factor := scaling.Factor(float64(c.BatchSize*c.Accumulate) / float64(base))
	if scaling != optim.NoScaling {
		from = 1 / factor
	}
	top, warmup := c.LearningRate*factor, uint64(c.Warmup)
	var s optim.Schedule
	switch c.Schedule {
	case "cosine":
		s = optim.Cosine{Max: top, Hold: warmup, Total: perEpoch * uint64(c.Epochs)}
	case "triangular2":
		// As published for ENS-10: a half cycle of half an epoch, from 1e-4 of the largest rate.
		s = optim.Triangular2{Base: 1e-4 * top, Max: top, HalfCycle: max(perEpoch/2, 1)}
	case "plateau":
		s = &optim.Plateau{Initial: top, Factor: 0.3, Patience: 5, Min: 1e-3 * top, State: *plateau}
	default:
		s = optim.Constant(top)
	}
	return optim.Warmup{Schedule: s, Steps: warmup, From: from}
}
