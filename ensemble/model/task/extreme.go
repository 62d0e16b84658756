package task

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// extremeWeights increases the weight of points with an unusual forecast in training:
//
//	weight · (1 + factor·|EFI|)
//
// with the extreme forecast index of all members relative to the climatology. With a large factor
// the weighted CRPS approaches the EECRPS of ENS-10. A nil extreme changes no weight.
//
// Source: Ashkboos et al. 2022, arXiv:2206.14786, for the EECRPS.
type extremeWeights struct {
	factor  float64
	climate []*score.Climate // [target]; nil for a target that is not scored
}

// SetExtremeWeights enables the weights of train.loss.extreme, if the configuration sets it.
//
// Errors: exit 64 with several ranks, as the climatology is not distributed.
func (k *Task) SetExtremeWeights(c *config.TrainConfig, climate *Climate, ranks *team.Team) error {
	if c.Train.Train.Loss.Extreme == 0 {
		return nil
	}
	if ranks != nil {
		return &exit.Error{Code: exit.Usage, What: "train.loss.extreme does not work with several ranks", At: "train.loss.extreme",
			Why: "only one rank has the climatology", Fix: "train on one rank, without train.mesh, or remove train.loss.extreme"}
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

// apply multiplies the weights of a target's points.
//
// Missing: where the index is missing, the weight does not change.
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
