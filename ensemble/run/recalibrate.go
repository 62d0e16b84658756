package run

import (
	"context"
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/team"
	"github.com/ensemble-weather/ensemble/internal/progress"
	"github.com/ensemble-weather/ensemble/postproc/calibration"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Recalibration makes of the normal distribution of one target Student's t distribution with the same mean,
// Factor times the spread and Nu degrees of freedom.
type Recalibration struct {
	Variable string          `json:"variable"`
	Level    string          `json:"level"` // as configuration files have it
	Lead     string          `json:"lead"`
	Factor   float64         `json:"spread_factor"`
	Nu       float64         `json:"degrees_of_freedom"`
	Starts   int             `json:"starts"` // on which it was fitted
	Cases    int             `json:"cases"`  // points of these
	Period   ensemble.Period `json:"period"` // of the starts
}

// valid tells whether there is such a distribution, and its variance.
func (r Recalibration) valid() bool {
	return r.Factor > 0 && r.Nu > 2 && !math.IsInf(r.Factor, 0) && !math.IsInf(r.Nu, 0)
}

// notNormal tells whether the model predicts a distribution that mean and spread do not describe.
func (m *Model) notNormal() bool { return m.Family != nil && m.Family != dist.Normal }

// recalibrate fits the recalibrations that a configuration asks for to the validation starts. Of several ranks all
// predict; the leading one fits, and tells the others.
func (t *trainer) recalibrate(ctx context.Context, c config.Calibrate, show *progress.Reporter) error {
	if c.Distribution == config.NoCalibration {
		return nil
	}
	m, k, past := t.model, &t.model.Task, t.data.validation
	tails := make([]calibration.Tails, len(k.Score))
	weights := m.Grid.Weights()
	err := t.judge(ctx, "recalibrate", show, func(_ *Forecast, cases []*Case) {
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
	var fits []Recalibration
	if m.ranks.Leads() {
		levels := k.Features.Axes.Levels
		for at := range tails {
			of := k.Targets[at/len(levels)]
			r := Recalibration{Variable: of.Variable, Level: levels[at%len(levels)].Of(of.Variable).String(), Lead: of.Lead.String(), Starts: len(past.inits), Cases: tails[at].Cases(),
				Period: ensemble.Period{From: past.inits[0].Time, To: past.inits[len(past.inits)-1].Time}}
			r.Factor, r.Nu = tails[at].Fit()
			fits = append(fits, r)
		}
	}
	if m.ranks != nil {
		all, err := team.Tell(m.ranks, team.Outcome[[]Recalibration]{Result: fits}, nil)
		if err != nil {
			return err
		}
		fits = all[0].Result
	}
	m.Recalibrations = fits
	return nil
}

// judge predicts all validation starts with the trained model; see Model.each.
func (t *trainer) judge(ctx context.Context, name string, show *progress.Reporter, visit func(out *Forecast, cases []*Case)) error {
	m := t.model
	m.ranks, m.local = t.ranks, t.local
	defer m.Close()
	o := engineOptions(t.cfg.Threads)
	o.Timings = t.table
	return m.each(ctx, name, t.data.validation, o, show, func(_ int, _ *ensemble.Forecast, out *Forecast, cases []*Case) error {
		visit(out, cases)
		return nil
	})
}

// recalibrated makes of the normal distributions of a forecast what the recalibrations say, if there are any:
// parameters, and the spread that goes with them.
func (m *Model) recalibrated(out *Forecast, targets int) {
	if m.Recalibrations == nil {
		return
	}
	n := len(out.Mean)
	par := [][]float32{make([]float32, n), make([]float32, n), make([]float32, n)}
	copy(par[0], out.Mean)
	for i, mean := range out.Mean {
		r := m.Recalibrations[i/(n/targets)]
		out.Sigma[i] *= float32(r.Factor)
		par[1][i], par[2][i] = out.Sigma[i]/float32(dist.StudentStd(r.Nu)), float32(r.Nu)
		if mean != mean {
			par[2][i] = mean
		}
	}
	out.Parameters = par
}

// recalibrationWords tell of a variable's distribution how it was calibrated, as files do: "" if it was not.
func (m *Model) recalibrationWords(t Target, level ensemble.Level) string {
	for _, r := range m.Recalibrations {
		if r.Variable == t.Variable && r.Level == level.String() && r.Lead == t.Lead.String() {
			return fmt.Sprintf("; spread times %.3f, %.3g degrees of freedom, fitted on %s from %s to %s", r.Factor, r.Nu, plural(r.Starts, "start"),
				ensemble.InitAt(r.Period.From), ensemble.InitAt(r.Period.To))
		}
	}
	return ""
}
