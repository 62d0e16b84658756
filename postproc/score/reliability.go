package score

import (
	"fmt"
	"math"
)

// probabilities are the shared sums of forecast probabilities and events: an entry for each
// probability that M members can give, 0/M to M/M, or for each hundredth for
// distributions.
//
// Layout: for each entry Σw, Σwp, Σwo.
var probabilities = &Sums{
	Size: func(m, _ int) int { return 3 * probabilityLevels(m) },
	Add: func(sums []float64, w float64, c *Case) {
		p, happened := c.Probability()
		k := 3 * int(math.Round(p*float64(probabilityLevels(len(c.Members))-1)))
		sums[k] += w
		sums[k+1] += w * p
		if happened {
			sums[k+2] += w
		}
	},
}

// probabilityLevels is the number of entries of probabilities.
func probabilityLevels(members int) int {
	if members > 0 {
		return members + 1
	}
	return 101
}

// Decomposition is Murphy's decomposition of a Brier score. Cases are grouped by forecast
// probability p_k, with n_k cases and the frequency o_k of the event in each group:
//
//	Reliability = Σ n_k (p_k−o_k)²/n,  Resolution = Σ n_k (o_k−ō)²/n,  Uncertainty = ō(1−ō)
//
// Brier = Reliability − Resolution + Uncertainty if all probabilities of a group agree.
//
// Source: Murphy 1973, doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2.
type Decomposition struct{ Reliability, Resolution, Uncertainty float64 }

// Decompose computes the decomposition from a table of triples Σw, Σwp, Σwo, one for each group.
func Decompose(table []float64) (d Decomposition) {
	var n, events float64
	for k := 0; k+2 < len(table); k += 3 {
		n, events = n+table[k], events+table[k+2]
	}
	base := events / n
	for k := 0; k+2 < len(table); k += 3 {
		if w := table[k]; w > 0 {
			p, o := table[k+1]/w, table[k+2]/w
			d.Reliability += w / n * (p - o) * (p - o)
			d.Resolution += w / n * (o - base) * (o - base)
		}
	}
	d.Uncertainty = base * (1 - base)
	return d
}

// mostGroups is the number of groups of forecast probabilities about 0, 0.1, …, 1.
const mostGroups = 11

// commonGroups is the number of groups of forecast probabilities in decompositions of all
// systems: one for each number of members of the smallest ensemble, at most mostGroups. With
// groups of their own, the resolution of systems with many groups would be larger, because
// frequencies of small groups differ by chance.
//
// Shape: members [system], 0 for distributions.
func commonGroups(members []int) int {
	groups := mostGroups
	for _, m := range members {
		if m > 1 {
			groups = min(groups, m+1)
		}
	}
	return groups
}

// regroup adds up a table of probabilities in groups about 0, 1/(groups−1), …, 1.
func regroup(table []float64, groups int) []float64 {
	out := make([]float64, 3*groups)
	last := len(table)/3 - 1
	for k := 0; k <= last; k++ {
		g := int(math.Round(float64(k) / float64(last) * float64(groups-1)))
		for i := range 3 {
			out[3*g+i] += table[3*k+i]
		}
	}
	return out
}

// formula is the formula of a score, with the number of groups if probabilities are grouped.
func (v *view) formula(e *entry) string {
	switch {
	case e.Needs&Fractions != 0:
		return fmt.Sprintf("%s, radius %g km", e.Formula, v.grid.Radius/1000)
	case !e.Grouped:
		return e.Formula
	}
	return fmt.Sprintf("%s, p in %d groups", e.Formula, v.groups)
}

// BrierReliability, BrierResolution and BrierUncertainty are the parts of the Brier score:
//
//	Σ n_k (p_k−o_k)²/n,   Σ n_k (o_k−ō)²/n,   ō(1−ō)
//
// The groups of forecast probabilities are the same for all systems: about 0, 1/M, …, 1 for
// the M ≤ 10 members of the smallest ensemble, tenths without members.
//
// Unit: none. Better: lower, higher, neither.
// Source: Murphy 1973, doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2.
var (
	BrierReliability = newBrierPart("brier_reliability", "reliability part of the Brier score", "sum_k n_k (p_k-o_k)^2 / n", Lower,
		"Part of the Brier score due to miscalibration.", func(d Decomposition) float64 { return d.Reliability })
	BrierResolution = newBrierPart("brier_resolution", "resolution part of the Brier score", "sum_k n_k (o_k-<o>)^2 / n", Higher,
		"How much the event's frequency differs between forecasts; lowers the Brier score.", func(d Decomposition) float64 { return d.Resolution })
	BrierUncertainty = newBrierPart("brier_uncertainty", "uncertainty part of the Brier score", "<o>(1-<o>)", Neither,
		"Brier score of always forecasting the event's frequency; the same for all systems.", func(d Decomposition) float64 { return d.Uncertainty })
)

// newBrierPart defines a score that is one part of Decomposition.
func newBrierPart(id, name, formula string, better Better, doc string, part func(Decomposition) float64) *Score {
	return &Score{
		ID: id, Name: name, Formula: formula, Doc: doc,
		Source: "doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2",
		Unit:   Dimensionless, Better: better, NoSkillScore: true, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, SharedSums: probabilities, Grouped: true,
		Value: func(mean []float64, _ int) float64 { return part(Decompose(mean)) },
	}
}

// ReliabilityDiagram is the observed frequency of an event as a function of its forecast
// probability, in eleven groups about 0, 0.1, …, 1. The band of the frequency comes from
// the resampled dates.
//
// Source: Bröcker and Smith 2007, doi:10.1175/WAF993.1.
var ReliabilityDiagram = &Score{
	ID: "reliability", Name: "reliability diagram", Formula: "<o> by forecast probability p",
	Doc:    "On the diagonal events happen as often as forecast; a flatter curve is overconfident.",
	Source: "doi:10.1175/WAF993.1",
	Unit:   Dimensionless, Better: Neither, Needs: Distribution | Events, MinMembers: 2, SharedSums: probabilities,
	Diagram: &DiagramSpec{
		Columns: []string{"probability", "frequency", "share", "base_rate"}, IntervalColumn: 1, WeightColumn: 2, Most: 1,
		Rows: func(t *Totals) [][]float64 {
			sums := regroup(t.Sums, mostGroups)
			var events float64
			for g := range mostGroups {
				events += sums[3*g+2]
			}
			out := make([][]float64, mostGroups)
			for g := range out {
				s := sums[3*g:]
				out[g] = []float64{s[1] / s[0], s[2] / s[0], s[0] / t.Weight, events / t.Weight}
			}
			return out
		},
	},
}
