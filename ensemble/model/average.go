package model

import (
	"math"
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/ensemble/model/network"
	"github.com/ensemble-weather/ensemble/ensemble/model/task"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// heads gathers what the networks of a prediction give of a distribution that is not normal.
type heads struct {
	m      *Model
	names  []string
	fields [][]float32 // means over networks by name; if they are apart those of all networks
}

// newHeads is nil for normal distributions and spread heads.
func (m *Model) newHeads(n int) *heads {
	if d := m.Spec.Head.Distribution; d == nil || d.Family == config.NormalFamily {
		return nil
	}
	h := &heads{m: m, names: m.Spec.ParameterNames()}
	if !h.apart() {
		for range h.names {
			h.fields = append(h.fields, make([]float32, n))
		}
	}
	return h
}

// apart tells whether the average of networks does not have the means of their parameters.
func (h *heads) apart() bool {
	return h.m.Family.Average != nil
}

// take adds an output of a network, which counts as a share of a mean.
func (h *heads) take(name string, x []float32, share float32) {
	if h.apart() {
		h.fields = append(h.fields, slices.Clone(x))
		return
	}
	to := h.fields[slices.Index(h.names, name)]
	for i, v := range x {
		to[i] += share * v
	}
}

// physical gives a forecast the parameters in physical units, and mean and standard deviation.
//
// Errors: if the networks give no distribution of the family.
func (h *heads) physical(out *Forecast, init ensemble.Init, stats []task.Statistics) error {
	k, n := h.m.Local, len(out.Spread)
	d := len(k.Features.Axes.Levels)
	families := make([]*dist.Family, len(k.Targets))
	for v, t := range k.Targets {
		families[v] = h.m.DistributionOf(t.Variable)
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
			par := h.at(i, at)
			ok := true
			for p, role := range f.Roles {
				switch e := k.ErrorScale[at]; role {
				case dist.Location:
					par[p] = float64(centre) + e*par[p]
					if h.m.Spec.Head.Bins() > 0 && network.BoundedVariable(k.Targets[at/d].Variable) {
						par[p] = max(0, par[p]) // the rest is a mass at 0
					}
				case dist.Scale:
					par[p] *= e
				case dist.Log:
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
				return notFinite(k, init, at, q)
			}
			out.Mean[i], out.Sigma[i] = float32(mean), float32(std)
		}
		off += len(st.Mean)
	}
	return nil
}

// at are the parameters of the average of all networks at a point of a target, as the networks
// give them.
func (h *heads) at(i, target int) []float64 {
	if !h.apart() {
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
