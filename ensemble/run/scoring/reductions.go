package scoring

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/dist"
	"github.com/ensemble-weather/ensemble/postproc/score"
	"github.com/ensemble-weather/ensemble/postproc/skill"
)

// extremeShare is the fraction of the area with the largest EFI, which is scored separately as
// score.LargestEFI.
const extremeShare = 0.1

// withClimate adds to options what a climate and members make possible.
func (s *Scoring) withClimate(o score.Options) score.Options {
	if s.Climate != nil && s.Full > 1 {
		o.Index, o.Extremes, o.Climate = true, extremeShare, s.Climate.Steps+1
	}
	return o
}

// reference returns what the systems of a case are compared with. The extreme forecast index is that of all
// members. Scores are weighted with the index as defined in ENS-10; points are selected by the original one.
func (s *Scoring) reference(c Case) score.Reference {
	ref := score.Reference{Obs: c.Obs}
	if s.options.Climate > 0 {
		ref.Climate = s.Climate.At(c.Init.Valid(s.Target.Lead).Time)
		ref.Index, ref.Extremes = make([]float32, len(c.Obs)), make([]float32, len(c.Obs))
		score.EFIMap(ref.Index, score.TwentiethQuantiles(ref.Climate), c.Members, score.EFIENS10)
		score.EFIMap(ref.Extremes, ref.Climate, c.Members, score.EFI)
	}
	return ref
}

// areas returns masks of the parts of the area for which the reduction in CRPS is split, as named by
// areaNames after the first.
//
// Shape: [part][point].
func (s *Scoring) areas(ref score.Reference) (out [][]bool) {
	for _, r := range s.options.Regions {
		out = append(out, r.Mask)
	}
	if s.options.Extremes > 0 {
		out = append(out, score.LargestPoints(ref.Extremes, s.weights, s.options.Extremes))
	}
	return out
}

// areaNames names the whole area and its parts in results.
func (s *Scoring) areaNames() []string {
	out := []string{score.Everywhere}
	for _, r := range s.options.Regions {
		out = append(out, r.Name)
	}
	if s.options.Extremes > 0 {
		out = append(out, score.LargestEFI)
	}
	return out
}

// splitReductions splits the reduction in CRPS of the network against the raw full ensemble into its causes (see
// package gain), for the whole area, by region, over all dates, and by season if seasons are scored.
func (s *Scoring) splitReductions(all *score.Result) error {
	slices.SortFunc(s.reductions, func(a, b datedReduction) int { return a.Init.Compare(b.Init.Time) })
	seasons := []string{score.AllYear}
	if s.options.Seasons {
		seasons = append(seasons, score.Seasons...)
	}
	for _, season := range seasons {
		inSeason := func(init ensemble.Init) bool {
			return season == score.AllYear || score.SeasonOf(init.Valid(s.Target.Lead).Time) == season
		}
		for area, name := range s.areaNames() {
			var rows []skill.Sums
			for _, g := range s.reductions {
				if inSeason(g.Init) {
					rows = append(rows, g.Sums[area])
				}
			}
			if len(rows) == 0 {
				continue
			}
			b := s.Bootstrap
			b.BlockLength = min(b.BlockLength, len(rows))
			r, err := skill.NewReport(rows, s.Full, b)
			if err != nil {
				return err
			}
			level, lead, raw := s.Target.Level.String(), s.Target.Lead.String(), SystemRaw(s.Full)
			best, bestCRPS := s.bestBaseline(name, inSeason)
			for _, p := range r.Components {
				all.SkillComponents = append(all.SkillComponents, score.SkillComponent{Component: p.ID, System: SystemNetwork, Reference: raw, ReferenceID: score.CRPSPlain.ID,
					Variable: s.Target.Variable, Level: level, Lead: lead, LeadH: s.Target.Lead.Hours(),
					Reduction: score.Number(p.Value), CILow: score.Number(p.Low), CIHigh: score.Number(p.High), CRPS: score.Number(p.CRPS), BaselineCRPS: score.Missing(), N: r.Dates,
					Region: name, Season: season, Weights: s.weightsName})
				// The baseline emos_grid_full is this step: sums in another order do not make it better.
				if row := &all.SkillComponents[len(all.SkillComponents)-1]; p.ID == "season" && bestCRPS < (1-1e-6)*p.CRPS {
					row.Baseline, row.BaselineCRPS = best, score.Number(bestCRPS)
				}
			}
			for _, y := range r.IdealScores {
				reference := SystemNetwork
				if y.FromMembers {
					reference = raw
				}
				all.IdealScores = append(all.IdealScores, score.IdealScore{ID: y.ID, System: SystemNetwork, Reference: reference,
					Variable: s.Target.Variable, Level: level, Lead: lead, LeadH: s.Target.Lead.Hours(), Formula: y.Formula, Unit: s.Target.Unit,
					CRPS: score.Number(y.CRPS.Value), CILow: score.Number(y.CRPS.Low), CIHigh: score.Number(y.CRPS.High),
					Ratio: score.Number(y.Ratio.Value), RatioLow: score.Number(y.Ratio.Low), RatioHigh: score.Number(y.Ratio.High), N: r.Dates,
					Region: name, Season: season, Weights: s.weightsName})
			}
		}
	}
	return nil
}

// bestBaseline returns the listed baseline with the least CRPS in a region over some initialisations, and that CRPS; +Inf
// without baselines.
func (s *Scoring) bestBaseline(region string, in func(ensemble.Init) bool) (name string, crps float64) {
	crps = math.Inf(1)
	for _, b := range s.used {
		var weight, sum float64
		for _, x := range s.distributions.WeightedSums(b.Method.ID, s.crpsID(b.Method.ID), region) {
			if in(x.Init) {
				weight, sum = weight+x.Weight, sum+x.Sum
			}
		}
		if mean := sum / weight; mean < crps {
			name, crps = b.Method.ID, mean
		}
	}
	return name, crps
}

// dateScores returns the scores of all systems by initialisation: for the network also those of the full ensemble
// at the same points, and those of its spread.
func (s *Scoring) dateScores() []score.DateScore {
	out := s.networkDates()
	if s.distributions != nil {
		for _, system := range s.Systems[0] {
			if system.Name != SystemNetwork {
				out = append(out, s.crpsDates(system.Name, score.Everywhere)...)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b score.DateScore) int { return strings.Compare(a.Init, b.Init) })
	return out
}

// regionDates returns the CRPS of all systems by region and initialisation.
func (s *Scoring) regionDates() (out []score.DateScore) {
	if s.distributions == nil {
		return nil
	}
	for _, r := range s.options.Regions {
		for _, system := range s.Systems[0] {
			out = append(out, s.crpsDates(system.Name, r.Name)...)
		}
	}
	return out
}

// newDate is the score of a system at an initialisation without values.
func (s *Scoring) newDate(system, id string, init ensemble.Init) score.DateScore {
	none := score.Missing()
	return score.DateScore{System: system, Score: id, Variable: s.Target.Variable, Level: s.Target.Level.String(), Lead: s.Target.Lead.String(), LeadH: s.Target.Lead.Hours(),
		Init: init.Format(time.RFC3339), Region: score.Everywhere, CRPS: none, UnweightedCRPS: none, ReferenceCRPS: none, ExtremeCRPS: none, ExtremeReferenceCRPS: none, SpreadMSE: none}
}

// crpsID is the ID of the CRPS of a system: that of its distribution, or of its members if it is given by them; "" if it
// has none.
func (s *Scoring) crpsID(system string) string {
	if s.distributions == nil {
		return ""
	}
	i := slices.IndexFunc(s.Systems[0], func(y score.System) bool { return y.Name == system })
	if i >= 0 && s.Systems[0][i].Provides&score.Members != 0 {
		return score.CRPSPlain.ID
	}
	for _, id := range []string{score.CRPSFamily.ID, score.CRPSGauss.ID} {
		if s.distributions.HasScore(system, id) {
			return id
		}
	}
	return ""
}

// crpsDates returns the CRPS of a system in a region by initialisation.
func (s *Scoring) crpsDates(system, region string) (out []score.DateScore) {
	id := s.crpsID(system)
	for _, x := range s.distributions.WeightedSums(system, id, region) {
		if x.Weight > 0 {
			d := s.newDate(system, id, x.Init)
			d.Region, d.Weight, d.CRPS = region, x.Weight, score.Number(x.Sum/x.Weight)
			out = append(out, d)
		}
	}
	return out
}

// networkDates returns the scores of the network by initialisation.
func (s *Scoring) networkDates() (out []score.DateScore) {
	of := func(init ensemble.Init) score.DateScore {
		d := s.newDate(SystemNetwork, s.crpsID(SystemNetwork), init)
		d.Reference = SystemRaw(s.Full)
		return d
	}
	for _, g := range s.reductions {
		whole := g.Sums[0]
		if whole.Weight() == 0 {
			continue // no point has all values
		}
		split := whole.Means()
		d := of(g.Init)
		d.Weight, d.CRPS, d.ReferenceCRPS = whole.Weight(), score.Number(split.Model), score.Number(split.Reference)
		d.Points, d.UnweightedCRPS = g.Points, score.Number(g.CRPS)
		if s.options.Extremes > 0 {
			sums := g.Sums[len(g.Sums)-1]
			split := sums.Means()
			d.ExtremeWeight, d.ExtremeCRPS, d.ExtremeReferenceCRPS = sums.Weight(), score.Number(split.Model), score.Number(split.Reference)
		}
		out = append(out, d)
	}
	if len(s.reductions) == 0 && s.distributions != nil {
		out = s.crpsDates(SystemNetwork, score.Everywhere)
	}
	if s.spreads == nil {
		return out
	}
	for _, x := range s.spreads.WeightedSums(SystemNetwork, score.SpreadRMSE.ID, score.Everywhere) {
		if x.Weight == 0 {
			continue
		}
		d := of(x.Init)
		at := slices.IndexFunc(out, func(o score.DateScore) bool { return o.Init == d.Init })
		if at < 0 { // only the spread is scored
			at = len(out)
			out = append(out, d)
		}
		out[at].SpreadWeight, out[at].SpreadMSE = x.Weight, score.Number(x.Sum/x.Weight)
	}
	return out
}

// unweightedCRPS is the network's mean CRPS over points with forecast and analysis, all with the same weight,
// as in the published table of ENS-10.
//
// Source: Ashkboos et al. 2022 (ENS-10), arXiv:2206.14786.
func unweightedCRPS(g *skill.Case) (mean float64, points int) {
	for p, y := range g.Obs {
		mu, sigma := float64(g.Mean[p]), float64(g.Spread[p])
		if y != y || mu != mu || sigma != sigma {
			continue
		}
		points++
		if g.Score != nil {
			mean += g.Score(p)
		} else {
			crps, _, _ := dist.NormalCRPS(mu, sigma, float64(y))
			mean += crps
		}
	}
	return mean / float64(points), points
}

// Systems of a verification in scores.json. Raw ensembles are "raw5" and "raw10", by number of members;
// baselines have the IDs of their methods.
const (
	SystemNetwork = "network"
	// SystemDistribution is the network's distribution, from its mean and spread or parameters, beside the
	// probabilities and quantiles that were published.
	SystemDistribution = "network_distribution"
	SystemAffine       = "affine"
)

// SystemRaw is the name of the raw ensemble with this number of members.
func SystemRaw(members int) string { return fmt.Sprintf("raw%d", members) }

// IsReference reports whether the network can be compared with a system: its own distribution and members are
// no references.
func IsReference(system string) bool { return !strings.HasPrefix(system, SystemNetwork) }

// RawMembers is the number of members of a raw ensemble; not ok for other systems.
func RawMembers(system string) (members int, ok bool) {
	number, ok := strings.CutPrefix(system, "raw")
	members, err := strconv.Atoi(number)
	return members, ok && err == nil
}
