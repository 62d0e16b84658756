package experiment

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble/record"
	"github.com/ensemble-weather/ensemble/ensemble/run/scoring"
	"github.com/ensemble-weather/ensemble/ensemble/run/trained"
	"github.com/ensemble-weather/ensemble/io/table"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// series identifies the comparison of a system with a reference on one target.
type series struct{ system, score, reference, variable, level, lead string }

// pairs pairs the scores of the network by initialisation with those of each reference; without a
// distribution of the network those of its members. order lists the comparisons as they first appear.
func pairs(dates []score.DateScore) (order []series, of map[series][]score.PairedDate, err error) {
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
	of = map[series][]score.PairedDate{}
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
		of[s] = append(of[s], score.PairedDate{Time: init, Weight: x.Weight, Score: float64(x.CRPS), Reference: float64(d.CRPS)})
	}
	return order, of, nil
}

// periodDates are the paired scores of a variant in one test period or in all: means over the seeds, and
// those of each seed.
type periodDates struct {
	mean   map[series][]score.PairedDate
	bySeed []map[series][]score.PairedDate
}

// ofSeeds is the comparison s by seed.
func (p *periodDates) ofSeeds(s series) (all [][]score.PairedDate) {
	for _, own := range p.bySeed {
		all = append(all, own[s])
	}
	return all
}

// addPeriods adds the skill of each variant in each test period and in all, and its trend, to a record.
// results are those of the trainings, for the units.
//
// Errors: those of table.Read.
func (o *Options) addPeriods(ctx context.Context, r *record.Record, results []*score.Result) error {
	e := o.Experiment
	for _, v := range e.Variants {
		var order []series
		pooled := periodDates{map[series][]score.PairedDate{}, make([]map[series][]score.PairedDate, len(e.Seeds))}
		for i := range pooled.bySeed {
			pooled.bySeed[i] = map[series][]score.PairedDate{}
		}
		for _, origin := range e.Origins.Names() {
			found, own, err := o.readPeriod(ctx, training{variant: v, origin: origin})
			if err != nil {
				return err
			}
			for _, s := range found {
				if err := own.addRow(r, v.Name, origin, s, results); err != nil {
					return err
				}
				if pooled.mean[s] == nil {
					order = append(order, s)
				}
				pooled.mean[s] = append(pooled.mean[s], own.mean[s]...)
				for i := range pooled.bySeed {
					pooled.bySeed[i][s] = append(pooled.bySeed[i][s], own.bySeed[i][s]...)
				}
			}
		}
		for _, s := range order {
			if err := pooled.addRow(r, v.Name, record.AllPeriods, s, results); err != nil {
				return err
			}
			perYear, low, high, err := score.Bootstrap{}.SkillTrend(pooled.ofSeeds(s))
			if err != nil {
				return err
			}
			r.Trends = append(r.Trends, record.Trend{Variant: v.Name, System: s.system, Reference: s.reference, Variable: s.variable, Level: s.level, Lead: s.lead,
				PerYear: score.Number(perYear), CILow: score.Number(low), CIHigh: score.Number(high)})
		}
	}
	return nil
}

// readPeriod reads the scores by initialisation of the trainings for one origin, all seeds.
func (o *Options) readPeriod(ctx context.Context, t training) (order []series, p periodDates, err error) {
	var seeds [][]score.DateScore
	for _, t.seed = range o.Experiment.Seeds {
		dates, err := table.Read[score.DateScore](ctx, filepath.Join(o.Dir, t.dir(), trained.DatesTable))
		if err != nil {
			return nil, p, err
		}
		_, own, err := pairs(dates)
		if err != nil {
			return nil, p, err
		}
		seeds, p.bySeed = append(seeds, dates), append(p.bySeed, own)
	}
	order, p.mean, err = pairs(meanDates(seeds))
	return order, p, err
}

// addRow adds the skill of a variant in a period to a record.
func (p *periodDates) addRow(r *record.Record, variant, origin string, s series, results []*score.Result) error {
	dates := p.mean[s]
	skill, low, high, err := score.Bootstrap{}.SkillScore(p.ofSeeds(s))
	if err != nil {
		return err
	}
	row := record.Period{Variant: variant, Origin: origin, From: dates[0].Time.Format(time.RFC3339), To: dates[len(dates)-1].Time.Format(time.RFC3339),
		System: s.system, Score: s.score, Reference: s.reference, Variable: s.variable, Level: s.level, Lead: s.lead, N: len(dates),
		SkillScore: score.Number(skill), CILow: score.Number(low), CIHigh: score.Number(high)}
	var values []float64
	for _, own := range p.ofSeeds(s) {
		x, _ := weightedMeans(own)
		values = append(values, x)
	}
	_, row.SD = meanSD(values)
	x, y := weightedMeans(dates)
	row.Value, row.ReferenceValue = score.Number(x), score.Number(y)
	for _, result := range results {
		if v := result.Find(s.score, s.system, s.variable, s.level, s.lead); v != nil {
			row.Unit = v.Unit
			break
		}
	}
	r.Periods = append(r.Periods, row)
	return nil
}

// weightedMeans returns the mean scores of a system and of its reference.
func weightedMeans(dates []score.PairedDate) (own, reference float64) {
	var weight float64
	for _, d := range dates {
		weight, own, reference = weight+d.Weight, own+d.Weight*d.Score, reference+d.Weight*d.Reference
	}
	return own / weight, reference / weight
}

// hardest lists, for each target of a variant, the two references that summaries show: of the raw ensembles
// and of all other systems the one with the best score in all test periods. To choose them by the test is to
// the disadvantage of the network.
func hardest(all []record.Period) []record.Period {
	type of struct {
		variant, variable, level, lead string
		raw                            bool
	}
	best := map[of]record.Period{}
	var order []of
	for _, p := range all {
		if p.Origin != record.AllPeriods {
			continue
		}
		_, raw := scoring.RawMembers(p.Reference)
		k := of{p.Variant, p.Variable, p.Level, p.Lead, raw}
		b, known := best[k]
		if !known {
			order = append(order, k)
		}
		if !known || p.ReferenceValue < b.ReferenceValue {
			best[k] = p
		}
	}
	out := make([]record.Period, len(order))
	for i, k := range order {
		out[i] = best[k]
	}
	return out
}

// ofComparison lists the periods, without the one of all, that have the variant, target and reference of p.
func ofComparison(all []record.Period, p record.Period) (out []record.Period) {
	for _, q := range all {
		if q.Origin != record.AllPeriods && q.Variant == p.Variant && q.Reference == p.Reference && q.Variable == p.Variable && q.Level == p.Level && q.Lead == p.Lead {
			out = append(out, q)
		}
	}
	return out
}

// trendOf returns the trend of the comparison of p.
func trendOf(all []record.Trend, p record.Period) *record.Trend {
	i := slices.IndexFunc(all, func(t record.Trend) bool {
		return t.Variant == p.Variant && t.Reference == p.Reference && t.Variable == p.Variable && t.Level == p.Level && t.Lead == p.Lead
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}
