package model

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/ensemble/config"
	"github.com/ensemble-weather/ensemble/postproc/baseline"
	"github.com/ensemble-weather/ensemble/postproc/dist"
)

// FallBacks picks the first of some baselines, or raw, that can forecast all targets of a model in place of
// its network; "" if there is none. A model has none unless its network gives normal distributions.
func (m *Model) FallBacks(ladder []string) string {
	if m.Spec.Head != DistributionHead || m.Spec.GivesMembers() || m.NotNormal() {
		return ""
	}
	for _, rung := range ladder {
		all := rung == config.RawFallBack || len(m.Baselines) > 0
		for at := range m.Task.Score {
			all = all && (rung == config.RawFallBack || m.Task.Score[at] == 0 || m.fallBack(at, rung) != nil)
		}
		if all {
			return rung
		}
	}
	return ""
}

// fallBack finds the fit of a baseline to a target that gives a normal distribution from the members' moments; nil if there is none.
func (m *Model) fallBack(at int, id string) baseline.Fit {
	if at >= len(m.Baselines) {
		return nil
	}
	for _, b := range m.Baselines[at].Fits {
		if b.Method.ID == id && b.Method.Family == dist.Normal && b.Method.Looks != baseline.AtMembers {
			return b.Fit
		}
	}
	return nil
}

// FallBack forecasts a start without the network, by one of FallBacks, from the statistics of so many members on
// the whole grid, as they are stored. The raw distribution is normal with the members' mean m and the spread
// s·√(1 + 1/M), s with divisor M−1: what members that are draws of the truth say of it. The spread of the full ensemble is the
// line through that of the members which the training fitted.
//
// Targets that are not scored have the raw distribution.
func (m *Model) FallBack(rung string, init ensemble.Init, stats []Statistics, members int) *Forecast {
	k := &m.Task
	out := &Forecast{}
	depth := len(k.Features.Axes.Levels)
	unbiased := math.Sqrt(float64(members-k.Features.DDOF) / float64(max(members-1, 1)))
	finite := math.Sqrt(1 + 1/float64(members))
	for at, st := range stats {
		spread, full := make([]float32, len(st.Std)), make([]float32, len(st.Std))
		for q, s := range st.Std {
			spread[q] = float32(unbiased * float64(s))
			full[q] = float32(max(0, k.SpreadAffine[at][0]+k.SpreadAffine[at][1]*float64(s)))
		}
		out.Spread = append(out.Spread, full...)
		if fit := m.fallBack(at, rung); fit != nil {
			y := fit.Forecast(baseline.Raw{Valid: init.Valid(k.Targets[at/depth].Lead).Time, Mean: st.Mean, Std: spread})
			out.Mean, out.Sigma = append(out.Mean, y[0]...), append(out.Sigma, y[1]...)
			continue
		}
		for q := range spread {
			spread[q] *= float32(finite)
		}
		out.Mean, out.Sigma = append(out.Mean, st.Mean...), append(out.Sigma, spread...)
	}
	return out
}
