package model

import (
	"fmt"
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/humanise"
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
	Inits    int             `json:"inits"`  // on which it was fitted
	Cases    int             `json:"cases"`  // points of these
	Period   ensemble.Period `json:"period"` // of the starts
}

// isValid tells whether there is such a distribution, and its variance.
func (r Recalibration) isValid() bool {
	return r.Factor > 0 && r.Nu > 2 && !math.IsInf(r.Factor, 0) && !math.IsInf(r.Nu, 0)
}

// IsNonNormal tells whether the model predicts a distribution that mean and spread do not describe.
func (m *Model) IsNonNormal() bool { return m.Family != nil && m.Family != dist.Normal }

// recalibrate makes of the normal distributions of a forecast what the recalibrations say, if there are any:
// parameters, and the spread that goes with them.
func (m *Model) recalibrate(out *Forecast, targets int) {
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

// DescribeRecalibration tell of a variable's distribution how it was calibrated, as files do: "" if it was not.
func (m *Model) DescribeRecalibration(t task.Target, level ensemble.Level) string {
	for _, r := range m.Recalibrations {
		if r.Variable == t.Variable && r.Level == level.String() && r.Lead == t.Lead.String() {
			return fmt.Sprintf("; spread times %.3f, %.3g degrees of freedom, fitted on %s from %s to %s", r.Factor, r.Nu, humanise.Count(r.Inits, "start"),
				ensemble.InitAt(r.Period.From), ensemble.InitAt(r.Period.To))
		}
	}
	return ""
}
