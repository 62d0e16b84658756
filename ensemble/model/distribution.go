package model

import (
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// VariableFamily returns the family of the predicted distribution of a variable. Variables without
// negative values have the family censored at 0, which does not change probabilities of positive
// values.
//
// Model.Family must not be nil: a spread head has no distribution.
func (m *Model) VariableFamily(variable string) *dist.Family {
	if !network.IsNonNegative(variable) {
		return m.Family
	}
	return m.Family.Censored()
}

// CheckedFamily is VariableFamily for products that need the values of a variable to be within the
// support of the distribution. A quantile of a humidity above 100 %, or below 0, would otherwise be
// published.
//
// Errors: exit 64 for variables with unknown bounds, unless the family has positive values only, and
// for variables with bounds other than 0.
func (m *Model) CheckedFamily(variable string) (*dist.Family, error) {
	v, known := ensemble.VariableNamed(variable)
	if _, ok := v.NonNegative(); !ok && (known || !m.Family.Positive) {
		return nil, &exit.Error{Code: exit.Usage, What: "quantiles, probabilities and members of " + variable + " are not available", At: "products",
			Why: "the model predicts a distribution (" + m.Family.Name + "), but the range of values of " + variable + " is unknown", Fix: "request mean and spread only"}
	}
	return m.VariableFamily(variable), nil
}

// ParameterFields holds fields of the parameters of a distribution, in the order of its family.
//
// Shape: [parameter][point].
type ParameterFields [][]float32

// At copies the parameters at a point into par and returns it.
func (f ParameterFields) At(par []float64, point int) []float64 {
	for k := range f {
		par[k] = float64(f[k][point])
	}
	return par
}

// ParametersAt returns the parameters of target at, for the part of its fields that part selects. A
// normal distribution has mean and standard deviation as parameters.
//
// Shape: [parameter][point].
// Unit: as the family's roles define (dist.Family.Roles), in the SI unit of the variable.
// Memory: the result refers to the fields of the forecast, unless part copies.
func (f *Forecast) ParametersAt(at, points int, part func(field []float32) []float32) ParameterFields {
	all := f.Parameters
	if all == nil {
		all = [][]float32{f.Mean, f.Sigma}
	}
	out := make(ParameterFields, len(all))
	for k, x := range all {
		out[k] = part(x[at*points : (at+1)*points])
	}
	return out
}

// FullField selects the whole field. It is the part for ParametersAt of callers that need all
// points.
func FullField(field []float32) []float32 { return field }

// DescribeTargets formats the predicted variables, levels and leads for messages.
func (m *Model) DescribeTargets() string {
	k, d := &m.Task, len(m.Task.Features.Axes.Levels)
	var out []string
	for at := range k.TargetWeights {
		if t := k.Targets[at/d]; k.TargetWeights[at] != 0 && t.Lead == k.Targets[0].Lead {
			out = append(out, t.Variable+" at "+k.Features.Axes.Levels[at%d].ForVariable(t.Variable).String())
		}
	}
	return strings.Join(out, ", ") + " at " + task.FormatLeads(k.TargetLeads())
}
