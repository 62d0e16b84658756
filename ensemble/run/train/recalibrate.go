package train

import (
	"context"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
)

// recalibrate fits recalibrations of the distribution on the validation samples: from errors y − μ and
// predicted σ a factor for σ and the degrees of freedom of Student's t distribution (see calibration.Tails),
// for each target, weighted by area. All ranks predict; rank 0 fits and broadcasts the result.
func (t *trainer) recalibrate(ctx context.Context, c config.Calibrate, show *progress.Reporter) error {
	if c.Distribution == config.NoCalibration {
		return nil
	}
	m, k, past := t.model, &t.model.Task, t.data.Validation
	tails := make([]calibration.Tails, len(k.TargetWeights))
	weights := m.Grid.Weights()
	err := t.eachValidation(ctx, "recalibrate", show, func(_ *model.Forecast, cases []*scoring.Case) {
		for at, c := range cases {
			if c == nil {
				continue
			}
			for p, y := range c.Obs {
				tails[at].Add(float64(y)-float64(c.Mean[p]), float64(c.Sigma[p]), weights[p])
			}
		}
	})
	if err != nil {
		return err
	}
	var fits []model.Recalibration
	if m.Ranks.IsRoot() {
		levels := k.Features.Axes.Levels
		for at := range tails {
			of := k.Targets[at/len(levels)]
			r := model.Recalibration{Variable: of.Variable, Level: levels[at%len(levels)].ForVariable(of.Variable).String(), Lead: of.Lead.String(), Inits: len(past.Inits), Cases: tails[at].Cases(),
				Period: ensemble.Period{From: past.Inits[0].Time, To: past.Inits[len(past.Inits)-1].Time}}
			r.Factor, r.Nu = tails[at].Fit()
			fits = append(fits, r)
		}
	}
	if m.Ranks != nil {
		all, err := team.AllGatherOutcomes(m.Ranks, team.Outcome[[]model.Recalibration]{Result: fits}, nil)
		if err != nil {
			return err
		}
		fits = all[0].Result
	}
	m.Recalibrations = fits
	return nil
}
