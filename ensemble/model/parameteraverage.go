package model

import (
	"fmt"
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// parameterAverage averages the parameters of a distribution that is not normal over the networks of
// a model. For a family of location and scale the mean of parameters is the distribution whose
// quantiles are averaged. Unlike a mixture it keeps the family and does not widen the distribution.
//
// Source: Lichtendahl, Grushka-Cockayne and Winkler 2013, doi:10.1287/mnsc.1120.1667.
type parameterAverage struct {
	m      *Model
	names  []string    // outputs of a network
	fields [][]float32 // means over networks, by name; or, if they are kept separate, the outputs of all networks
}

// newParameterAverage allocates fields of n points. It returns nil for normal distributions and for
// other heads.
func (m *Model) newParameterAverage(n int) *parameterAverage {
	if d := m.Spec.Head.Distribution; d == nil || d.Family == config.NormalFamily {
		return nil
	}
	h := &parameterAverage{m: m, names: m.Spec.ParameterNames()}
	if !h.keepsNetworks() {
		for range h.names {
			h.fields = append(h.fields, make([]float32, n))
		}
	}
	return h
}

// keepsNetworks reports whether the family has an average of its own, for which the outputs of all
// networks are kept, instead of the mean of parameters.
func (h *parameterAverage) keepsNetworks() bool {
	return h.m.Family.Average != nil
}

// add adds an output of a network with the weight share. Kept outputs are copied, since the next run
// overwrites them; they are in the order of networks, then of names.
func (h *parameterAverage) add(name string, x []float32, share float32) {
	if h.keepsNetworks() {
		h.fields = append(h.fields, slices.Clone(x))
		return
	}
	to := h.fields[slices.Index(h.names, name)]
	for i, v := range x {
		to[i] += share * v
	}
}

// toPhysical converts the parameters to physical units, and computes mean and standard deviation of
// the distribution. With error scale e and members' mean m:
//
//	location: m + e·par     scale: e·par     logarithm of a scale: par + ln e     others: par
//
// Missing: NaN where the members' mean is NaN.
// Errors: exit 65 for parameters that are not finite or give no standard deviation.
func (h *parameterAverage) toPhysical(out *Forecast, init ensemble.Init, stats []task.Statistics) error {
	k, n := h.m.Local, len(out.Spread)
	d := len(k.Features.Axes.Levels)
	families := make([]*dist.Family, len(k.Targets))
	for v, t := range k.Targets {
		families[v] = h.m.VariableFamily(t.Variable)
	}
	out.Parameters = make([][]float32, len(h.m.Family.Parameters))
	for i := range out.Parameters {
		out.Parameters[i] = make([]float32, n)
	}
	out.Mean, out.Sigma = make([]float32, n), make([]float32, n)
	off := 0
	for at, st := range stats {
		f := families[at/d]
		for q, centre := range st.Mean {
			i := off + q
			par := h.parametersAt(i, at)
			ok := true
			for p, role := range f.Roles {
				switch e := k.ErrorScale[at]; role {
				case dist.Location:
					par[p] = float64(centre) + e*par[p]
					if h.m.Spec.Head.Bins() > 0 && network.IsNonNegative(k.Targets[at/d].Variable) {
						par[p] = max(0, par[p]) // edges below 0 become a point mass at 0
					}
				case dist.Scale:
					par[p] *= e
				case dist.LogLocation:
					par[p] += math.Log(e)
				}
				if centre != centre {
					par[p] = float64(centre)
				}
				out.Parameters[p][i] = float32(par[p])
				ok = ok && par[p]-par[p] == 0
			}
			mean, std := f.Moments(par)
			if centre != centre {
				mean, std = float64(centre), float64(centre)
			} else if !ok || mean-mean != 0 || !(std >= 0) {
				return notFiniteError(k, init, at, q, fmt.Sprintf("parameters %v of distribution %s, mean %g, spread %g", par, f.ID, mean, std))
			}
			out.Mean[i], out.Sigma[i] = float32(mean), float32(std)
		}
		off += len(st.Mean)
	}
	return nil
}

// parametersAt returns the averaged parameters at point i of a target, in units of the network.
// fixed are the edges of a histogram head, nil for other heads.
func (h *parameterAverage) parametersAt(i, target int) []float64 {
	if !h.keepsNetworks() {
		par := make([]float64, len(h.fields))
		for k, f := range h.fields {
			par[k] = float64(f[i])
		}
		return par
	}
	var p [][]float64
	for one := range slices.Chunk(h.fields, len(h.names)) {
		q := make([]float64, len(one))
		for k, f := range one {
			q[k] = float64(f[i])
		}
		p = append(p, q)
	}
	var fixed []float64
	if h.m.Local.Edges != nil {
		fixed = h.m.Local.Edges[target]
	}
	return h.m.Family.Average(fixed, p)
}
