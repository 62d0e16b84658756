package train

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/run/samples"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/io/loader"
)

// planReads plans the caches for the rest of the current network and what follows: the first epoch of the next
// network, or the passes after the training.
func (t *trainer) planReads() {
	n := t.training()
	passes := t.data.TrainingPasses(t.current.cfg, t.pos.Network, n.Samples, samples.Span{Epoch: t.pos.Epoch, Batch: t.pos.Batch, End: t.current.cfg.Epochs})
	if next := t.pos.Network + 1; next < len(t.trainings) {
		n = t.trainings[next]
		passes = append(passes, t.data.TrainingPasses(n.Config, next, n.Samples, samples.Span{End: 1})...)
	} else {
		passes = append(passes, t.passesAfter()...)
	}
	t.data.PlanReads(passes)
}

// passesAfter returns the passes over samples after the training: calibrations, then the scores.
func (t *trainer) passesAfter() []loader.Pass {
	validation := t.data.Validation.Pass(nil)
	var passes []loader.Pass
	for _, method := range []string{t.calibrations.Distribution, t.calibrations.Probabilities} {
		if method != config.NoCalibration {
			passes = append(passes, validation)
		}
	}
	for _, order := range scoring.EvaluationOrders(t.model, t.data.Test) {
		passes = append(passes, t.data.Test.Pass(order))
	}
	return slices.DeleteFunc(passes, func(p loader.Pass) bool { return len(p.Common) == 0 })
}
