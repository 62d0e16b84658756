package task

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// extremeWeights gives the points of a training sample more weight where its forecast is unusual:
//
//	1 + factor·|EFI|
//
// with the extreme forecast index of all members against the climate. A large factor makes of
// the CRPS the EECRPS of ENS-10. A nil extreme weights nothing.
type extremeWeights struct {
	factor  float64
	climate []*score.Climate // as targets are stored; nil where a target is not scored
}

// SetExtremeWeights gives unusual forecasts the weights in training that a configuration asks for.
//
// Errors: exit 64 on several ranks, which have no climate of their slabs.
func (k *Task) SetExtremeWeights(c *config.TrainConfig, climate *Climate, ranks *team.Team) error {
	if c.Train.Train.Loss.Extreme == 0 {
		return nil
	}
	if ranks != nil {
		return &exit.Error{Code: exit.Usage, What: "train.loss.extreme is given to several ranks", At: "train.loss.extreme",
			Why: "one rank alone has the climate", Fix: "train on one rank, without train.mesh, or remove train.loss.extreme"}
	}
	e := &extremeWeights{factor: c.Train.Train.Loss.Extreme}
	for _, t := range k.Targets {
		for _, l := range k.Features.Axes.Levels {
			e.climate = append(e.climate, climate.Find(score.Target{Variable: t.Variable, Level: l.ForVariable(t.Variable), Lead: t.Lead}))
		}
	}
	k.extremeWeights = e
	return nil
}

// apply multiplies the weights of a target's points. Missing: where the index is, the weight stays.
func (e *extremeWeights) apply(weights []float32, at int, valid ensemble.Valid, members [][]float32) {
	if e == nil || e.climate[at] == nil {
		return
	}
	index := make([]float32, len(weights))
	score.EFIMap(index, e.climate[at].At(valid.Time), members, score.EFI)
	for p, v := range index {
		if v == v {
			weights[p] *= float32(1 + e.factor*math.Abs(float64(v)))
		}
	}
}
