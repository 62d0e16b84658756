package model

import (
	"strings"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/internal/exit"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// VariableFamily is the family of a variable of which the model gives the parameters. What cannot
// be negative is censored at 0, which keeps the probabilities of all other values.
func (m *Model) VariableFamily(variable string) *dist.Family {
	if !network.IsNonNegative(variable) {
		return m.Family
	}
	return m.Family.Censored()
}

// CheckedFamily is the distribution of a variable of which the model gives the parameters.
//
// Errors: exit 64 for variables that are not in the vocabulary, unless the family has only
// positive values, and for those with another bound, since a distribution may reach where none
// of their values can be.
func (m *Model) CheckedFamily(variable string) (*dist.Family, error) {
	v, known := ensemble.VariableNamed(variable)
	if _, ok := v.NonNegative(); !ok && (known || !m.Family.Positive) {
		return nil, &exit.Error{Code: exit.Usage, What: "no quantiles, probabilities and members of " + variable, At: "products",
			Why: "the model predicts a distribution (" + m.Family.Name + "), and nobody has said what values " + variable + " can have", Fix: "ask for mean and spread only"}
	}
	return m.VariableFamily(variable), nil
}

// ParameterFields are fields of the parameters of a distribution, in the order of its family.
type ParameterFields [][]float32

// At reads the parameters of a point into par and gives it.
func (f ParameterFields) At(par []float64, point int) []float64 {
	for k := range f {
		par[k] = float64(f[k][point])
	}
	return par
}

// ParametersAt are those of a target, [parameter][point], of a part of the fields: of a normal
// distribution mean and standard deviation.
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

// FullField is the part of a field that is all of it.
func FullField(field []float32) []float32 { return field }

// DescribeTargets names what a model predicts.
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
