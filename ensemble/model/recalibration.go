package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/humanise"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// Recalibration converts the normal distribution of one target to Student's t distribution with the
// same mean, Factor times the standard deviation, and Nu degrees of freedom.
//
// Factor 1 and Nu → ∞ would be the normal distribution itself.
type Recalibration struct {
	Variable string          `json:"variable"`
	Level    string          `json:"level"` // as in configuration files
	Lead     string          `json:"lead"`
	Factor   float64         `json:"spread_factor"`
	Nu       float64         `json:"degrees_of_freedom"`
	Inits    int             `json:"inits"`  // initialisations of the fit
	Cases    int             `json:"cases"`  // grid points of all initialisations
	Period   ensemble.Period `json:"period"` // of the initialisations
}

// isValid reports whether the distribution exists and has a variance (Nu > 2).
func (r Recalibration) isValid() bool {
	return r.Factor > 0 && r.Nu > 2 && !math.IsInf(r.Factor, 0) && !math.IsInf(r.Nu, 0)
}

// IsNonNormal reports whether mean and spread do not determine the predicted distribution of some target.
func (m *Model) IsNonNormal() bool {
	return m.Family != nil && (m.Family != dist.Normal || slices.ContainsFunc(m.Task.Targets, m.isCensored))
}

// isCensored reports whether the published distribution of a target is a normal one that is censored at 0.
func (m *Model) isCensored(t task.Target) bool {
	return m.Family == dist.Normal && m.VariableFamily(t.Variable) != dist.Normal
}

// censor sets mean and standard deviation of normal distributions that are censored at 0 to those of the censored
// ones; Parameters keep those of the normal ones. targets counts the targets of the forecast, [lead][variable][level].
//
// Missing: NaN where the mean is NaN.
// Source: moments of the censored normal distribution, postproc/dist.
func (m *Model) censor(out *Forecast, targets int) {
	if out.Mean == nil || out.Parameters != nil || !slices.ContainsFunc(m.Task.Targets, m.isCensored) {
		return
	}
	out.Parameters = [][]float32{slices.Clone(out.Mean), slices.Clone(out.Sigma)}
	n, levels := len(out.Mean)/targets, targets/len(m.Task.Targets)
	for i := range out.Mean {
		if t := m.Task.Targets[i/n/levels]; m.isCensored(t) && out.Mean[i] == out.Mean[i] {
			mean, std := m.VariableFamily(t.Variable).Moments([]float64{float64(out.Mean[i]), float64(out.Sigma[i])})
			out.Mean[i], out.Sigma[i] = float32(mean), float32(std)
		}
	}
}

// recalibrate applies the recalibrations to the normal distributions of a forecast, if there are
// any. It sets Parameters and multiplies Sigma.
//
// The scale parameter is Factor·σ/√(ν/(ν−2)), so that the standard deviation is Factor·σ.
//
// Missing: NaN where the mean is NaN.
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

// DescribeRecalibration describes the recalibration of a variable's distribution for product files;
// "" without recalibration.
func (m *Model) DescribeRecalibration(t task.Target, level ensemble.Level) string {
	for _, r := range m.Recalibrations {
		if r.Variable == t.Variable && r.Level == level.String() && r.Lead == t.Lead.String() {
			return fmt.Sprintf("; spread times %.3f, %.3g degrees of freedom, fitted on %s from %s to %s", r.Factor, r.Nu, humanise.Count(r.Inits, "initialisation"),
				ensemble.InitAt(r.Period.From), ensemble.InitAt(r.Period.To))
		}
	}
	return ""
}
