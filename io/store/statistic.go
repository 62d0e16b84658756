package store

import (
	"math"

	"github.com/ensemble-weather/ensemble/ensemble"
)

// Kinds of fields in Statistic.Kind.
const (
	KindForecast = "forecast"
	KindAnalysis = "analysis"
)

// Statistic describes the values of a variable on a level at a lead, over all
// initialisations, members and points without missing ones, before storage.
type Statistic struct {
	// Kind is KindForecast or KindAnalysis.
	Kind string `json:"kind"`
	// Lead in seconds.
	Lead     int64          `json:"lead_s"`
	Variable string         `json:"variable"`
	Level    ensemble.Level `json:"level"`
	// Count and Missing are numbers of values.
	Count   int64 `json:"count"`
	Missing int64 `json:"missing"`
	// Min, Max, Mean and SD are in the SI unit of the variable. They are 0 if Count
	// is 0.
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"` // standard deviation, divisor Count
}

// merge adds the values of another set. With δ = μ_b − μ_a and n = n_a + n_b:
//
//	μ  = μ_a + δ n_b/n
//	σ² = (n_a σ_a² + n_b σ_b² + δ² n_a n_b/n) / n
//
// Source: Chan, Golub, LeVeque 1983, doi:10.1080/00031305.1983.10483115.
func (s *Statistic) merge(o Statistic) {
	s.Missing += o.Missing
	if o.Count == 0 {
		return
	}
	if s.Count == 0 {
		s.Count, s.Min, s.Max, s.Mean, s.SD = o.Count, o.Min, o.Max, o.Mean, o.SD
		return
	}
	s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
	a, b := float64(s.Count), float64(o.Count)
	n, d := a+b, o.Mean-s.Mean
	s.Mean += d * b / n
	s.SD = math.Sqrt((a*s.SD*s.SD + b*o.SD*o.SD + d*d*a*b/n) / n)
	s.Count += o.Count
}

// statistic returns a record as a Statistic.
func (r *fieldRecord) statistic(points int) Statistic {
	return Statistic{Count: int64(points) - int64(r.missing), Missing: int64(r.missing),
		Min: float64(r.min), Max: float64(r.max), Mean: r.mean, SD: r.sd}
}

// statistics returns the statistics of a store without values: forecasts by lead,
// variable and level, then analyses.
func (m *Meta) statistics() []Statistic {
	var all []Statistic
	list := func(kind string, leads []int64, variables []string) {
		for _, t := range leads {
			for _, v := range variables {
				for _, l := range m.Levels {
					all = append(all, Statistic{Kind: kind, Lead: t, Variable: v, Level: l})
				}
			}
		}
	}
	list(KindForecast, m.Leads, m.Axes().Variables)
	list(KindAnalysis, m.Analyses.Leads, m.Analyses.Variables)
	return all
}

// statisticIndex returns the position of the first field of a part among the
// statistics.
func (l *layout) statisticIndex(p part, leads int) int {
	if p.member == analysis {
		return leads*l.parts[0].fields + p.lead*p.fields
	}
	return p.lead * p.fields
}
