// Package periods computes the skill of a system in several periods of initialisations, in all of them, and its trend
// in time.
package periods

import (
	"math"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// series identifies the comparison of a system with a reference on one target.
type series struct{ system, score, reference, variable, level, lead string }

// pairs pairs the scores of the network by initialisation with those of each reference; without a
// distribution of the network those of its members. order lists the comparisons as they first appear.
func pairs(dates []score.DateScore) (order []series, of map[series][]significance.PairedDate, err error) {
	type at struct{ variable, level, lead, init string }
	own := map[string]map[at]score.DateScore{scoring.SystemNetwork: {}, scoring.SystemMembers: {}}
	for _, d := range dates {
		if own[d.System] != nil && d.Weight > 0 {
			own[d.System][at{d.Variable, d.Level, d.Lead, d.Init}] = d
		}
	}
	system := scoring.SystemNetwork
	if len(own[system]) == 0 {
		system = scoring.SystemMembers
	}
	of = map[series][]significance.PairedDate{}
	for _, d := range dates {
		x, scored := own[system][at{d.Variable, d.Level, d.Lead, d.Init}]
		if !scored || !scoring.IsReference(d.System) || !(d.Weight > 0) {
			continue
		}
		init, err := time.Parse(time.RFC3339, d.Init)
		if err != nil {
			return nil, nil, err
		}
		s := series{system, x.Score, d.System, d.Variable, d.Level, d.Lead}
		if of[s] == nil {
			order = append(order, s)
		}
		of[s] = append(of[s], significance.PairedDate{Time: init, Weight: x.Weight, Score: float64(x.CRPS), Reference: float64(d.CRPS)})
	}
	return order, of, nil
}

// Group is the scores by initialisation in one period, of one or several seeds.
type Group struct {
	Origin string // begin of the period
	Seeds  [][]score.DateScore
}

// comparisons are the paired scores in one period or in all: means over the seeds, and those of each seed.
type comparisons struct {
	order  []series
	mean   map[series][]significance.PairedDate
	bySeed []map[series][]significance.PairedDate
}

// Skill is the skill in periods and in all, and the trends.
type Skill struct {
	Bootstrap significance.Bootstrap // of the intervals
	Periods   []score.Period
	Trends    []score.Trend
}

// Add adds the skill of a variant relative to each reference in each period and in all, and its trend. Groups are in
// the order of time. results have the units.
//
// Errors: for initialisations that are no times.
func (k *Skill) Add(variant string, groups []Group, results []*score.Result) error {
	pooled := comparisons{mean: map[series][]significance.PairedDate{}}
	for _, g := range groups {
		own, err := g.compare()
		if err != nil {
			return err
		}
		for len(pooled.bySeed) < len(own.bySeed) {
			pooled.bySeed = append(pooled.bySeed, map[series][]significance.PairedDate{})
		}
		for _, s := range own.order {
			row, err := own.row(s, results, k.Bootstrap)
			if err != nil {
				return err
			}
			row.Variant, row.Origin = variant, g.Origin
			k.Periods = append(k.Periods, row)
			if pooled.mean[s] == nil {
				pooled.order = append(pooled.order, s)
			}
			pooled.mean[s] = append(pooled.mean[s], own.mean[s]...)
			for i := range own.bySeed {
				pooled.bySeed[i][s] = append(pooled.bySeed[i][s], own.bySeed[i][s]...)
			}
		}
	}
	for _, s := range pooled.order {
		row, err := pooled.row(s, results, k.Bootstrap)
		if err != nil {
			return err
		}
		row.Variant, row.Origin = variant, score.AllPeriods
		k.Periods = append(k.Periods, row)
		perYear, low, high, err := k.Bootstrap.SkillTrend(pooled.ofSeeds(s))
		if err != nil {
			return err
		}
		k.Trends = append(k.Trends, score.Trend{Variant: variant, System: s.system, Reference: s.reference, Variable: s.variable, Level: s.level, Lead: s.lead,
			PerYear: score.Number(perYear), CILow: score.Number(low), CIHigh: score.Number(high)})
	}
	return nil
}

// compare pairs the scores of a period.
func (g *Group) compare() (c comparisons, err error) {
	for _, dates := range g.Seeds {
		_, own, err := pairs(dates)
		if err != nil {
			return c, err
		}
		c.bySeed = append(c.bySeed, own)
	}
	c.order, c.mean, err = pairs(meanDates(g.Seeds))
	return c, err
}

// meanDates averages the CRPS by initialisation of several trainings.
func meanDates(all [][]score.DateScore) []score.DateScore {
	out := slices.Clone(all[0])
	for i := range out {
		var sum score.Number
		for _, other := range all {
			sum += other[i].CRPS
		}
		out[i].CRPS = sum / score.Number(len(all))
	}
	return out
}

// ofSeeds is the comparison s by seed.
func (c *comparisons) ofSeeds(s series) (all [][]significance.PairedDate) {
	for _, own := range c.bySeed {
		all = append(all, own[s])
	}
	return all
}

// row is the skill in a period.
func (c *comparisons) row(s series, results []*score.Result, b significance.Bootstrap) (score.Period, error) {
	dates := c.mean[s]
	skill, low, high, err := b.SkillScore(c.ofSeeds(s))
	if err != nil {
		return score.Period{}, err
	}
	row := score.Period{From: dates[0].Time.Format(time.RFC3339), To: dates[len(dates)-1].Time.Format(time.RFC3339),
		System: s.system, Score: s.score, Reference: s.reference, Variable: s.variable, Level: s.level, Lead: s.lead, N: len(dates),
		SkillScore: score.Number(skill), CILow: score.Number(low), CIHigh: score.Number(high)}
	row.SD = standardDeviation(c.ofSeeds(s))
	x, y := weightedMeans(dates)
	row.Value, row.ReferenceValue = score.Number(x), score.Number(y)
	for _, result := range results {
		if v := result.Find(s.score, s.system, s.variable, s.level, s.lead); v != nil {
			row.Unit = v.Unit
			break
		}
	}
	return row, nil
}

// standardDeviation is that over seeds of the mean score; missing for one seed.
func standardDeviation(seeds [][]significance.PairedDate) score.Number {
	var sum, squares float64
	n := float64(len(seeds))
	values := make([]float64, len(seeds))
	for i, own := range seeds {
		values[i], _ = weightedMeans(own)
		sum += values[i]
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return score.Number(math.Sqrt(squares / (n - 1)))
}

// weightedMeans returns the mean scores of a system and of its reference.
func weightedMeans(dates []significance.PairedDate) (own, reference float64) {
	var weight float64
	for _, d := range dates {
		weight, own, reference = weight+d.Weight, own+d.Weight*d.Score, reference+d.Weight*d.Reference
	}
	return own / weight, reference / weight
}

// hardest lists, for each target of a variant, the two references that summaries show: of the raw ensembles
// and of all other systems the one with the best score in all test periods. To choose them by the test is to
// the disadvantage of the network.
func (k *Skill) hardest() []score.Period {
	type of struct {
		variant, variable, level, lead string
		raw                            bool
	}
	best := map[of]score.Period{}
	var order []of
	for _, p := range k.Periods {
		if p.Origin != score.AllPeriods {
			continue
		}
		_, raw := scoring.RawMembers(p.Reference)
		target := of{p.Variant, p.Variable, p.Level, p.Lead, raw}
		b, known := best[target]
		if !known {
			order = append(order, target)
		}
		if !known || p.ReferenceValue < b.ReferenceValue {
			best[target] = p
		}
	}
	out := make([]score.Period, len(order))
	for i, target := range order {
		out[i] = best[target]
	}
	return out
}

// ofComparison lists the periods, without the one of all, that have the variant, target and reference of p.
func (k *Skill) ofComparison(p score.Period) (out []score.Period) {
	for _, q := range k.Periods {
		if q.Origin != score.AllPeriods && q.Variant == p.Variant && q.Reference == p.Reference && q.Variable == p.Variable && q.Level == p.Level && q.Lead == p.Lead {
			out = append(out, q)
		}
	}
	return out
}

// trendOf returns the trend of the comparison of p.
func (k *Skill) trendOf(p score.Period) *score.Trend {
	i := slices.IndexFunc(k.Trends, func(t score.Trend) bool {
		return t.Variant == p.Variant && t.Reference == p.Reference && t.Variable == p.Variable && t.Level == p.Level && t.Lead == p.Lead
	})
	if i < 0 {
		return nil
	}
	return &k.Trends[i]
}
