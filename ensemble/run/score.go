package run

import (
	"slices"

	"github.com/ensemble-weather/ensemble/ensemble"
	"github.com/ensemble-weather/ensemble/postproc/score"
)

// Case is one date of one target, with everything that is to be judged on it.
//
// Shape: every field [NY*NX]; Members [member][NY*NX]. Mean, Sigma (the network's
// distribution) and Spread (its estimate of the full ensemble's spread) may be
// nil, as may Obs.
type Case struct {
	Init                ensemble.Init
	Obs                 []float32
	Members             [][]float32
	Used                []int // positions of the members that the network saw
	Mean, Sigma, Spread []float32
}

// judgement is the scoring of one target.
type judgement struct {
	target    score.Target
	grid      *ensemble.Grid
	ddof      int
	baselines *Baselines // nil: none
	bootstrap score.Bootstrap
}

// weightsName names the weights of a grid in results.
func weightsName(g *ensemble.Grid) string {
	if g.Kind == ensemble.RegularLatLon || g.Kind == ensemble.RegularGaussian {
		return "cos(latitude)"
	}
	return "equal"
}

// score judges all cases. Distributions are judged against the analyses, spreads
// against the full ensemble's; all systems on the same dates and points.
func (j judgement) score(cases []Case) (*score.Result, error) {
	slices.SortFunc(cases, func(a, b Case) int { return a.Init.Compare(b.Init.Time) })
	all := &score.Result{}
	if cases[0].Obs != nil {
		r, err := j.distributions(cases)
		if err != nil {
			return nil, err
		}
		all.Append(r)
	}
	if cases[0].Spread != nil && len(cases[0].Members) > len(cases[0].Used) {
		r, err := j.spreads(cases)
		if err != nil {
			return nil, err
		}
		all.Append(r)
	}
	return all, nil
}

// subset gives the fields of some members.
func subset(c Case, of []int) [][]float32 {
	out := make([][]float32, len(of))
	for i, m := range of {
		out[i] = c.Members[m]
	}
	return out
}

// meanStd is the mean and standard deviation over fields.
func meanStd(fields [][]float32, ddof int) (mean, std []float32) {
	mean, std = make([]float32, len(fields[0])), make([]float32, len(fields[0]))
	ensemble.MeanStd(mean, std, fields, ddof)
	return mean, std
}

// distributions judges means and spreads against analyses.
func (j judgement) distributions(cases []Case) (*score.Result, error) {
	first := cases[0]
	used, full := len(first.Used), len(first.Members)
	var systems []score.System
	if first.Mean != nil {
		systems = append(systems, score.System{Name: systemNetwork, MembersUsed: used, Gives: score.Mean | score.Spread})
	}
	if used > 1 {
		systems = append(systems, score.System{Name: systemRaw(used), MembersUsed: used, Gives: score.Members})
	}
	if full > used {
		systems = append(systems, score.System{Name: systemRaw(full), MembersUsed: full, Gives: score.Members})
	}
	names := []string{}
	if j.baselines != nil {
		have := j.baselines.distributions(first.Obs, first.Obs, first.Init.Time)
		for _, name := range []string{systemEMOS, systemGridEMOS, systemClimatology} {
			m := used
			if name == systemClimatology {
				m = 0
			} else if used < 2 {
				continue // EMOS corrects members
			}
			if _, ok := have[name]; ok {
				names = append(names, name)
				systems = append(systems, score.System{Name: name, MembersUsed: m, Gives: score.Mean | score.Spread})
			}
		}
	}
	acc, err := score.New(j.target, score.Grid{Weights: j.grid.Weights(), Name: weightsName(j.grid)}, systems, false)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		var samples []score.Sample
		if c.Mean != nil {
			samples = append(samples, score.Sample{Mean: c.Mean, Spread: c.Sigma})
		}
		few := subset(c, c.Used)
		if used > 1 {
			samples = append(samples, score.Sample{Members: few})
		}
		if full > used {
			samples = append(samples, score.Sample{Members: c.Members})
		}
		if len(names) > 0 {
			mean, std := c.Mean, c.Sigma // climatology looks at neither
			if used > 1 {
				mean, std = meanStd(few, 1)
			}
			have := j.baselines.distributions(mean, std, c.Init.Valid(j.target.Lead).Time)
			for _, name := range names {
				samples = append(samples, score.Sample{Mean: have[name][0], Spread: have[name][1]})
			}
		}
		if err := acc.Add(c.Init, c.Obs, nil, samples); err != nil {
			return nil, err
		}
	}
	var pairs []score.Pair
	if first.Mean != nil {
		for _, s := range systems[1:] {
			pairs = append(pairs, acc.Pairs(systemNetwork, s.Name)...)
			if s.Gives == score.Members {
				pairs = append(pairs, score.Pair{ID: score.CRPSGauss.ID, System: systemNetwork, Reference: s.Name, ReferenceID: score.CRPSPlain.ID})
			}
		}
	}
	return acc.Result(j.bootstrap, pairs)
}

// spreads judges spread fields against the spread of all members.
func (j judgement) spreads(cases []Case) (*score.Result, error) {
	used := len(cases[0].Used)
	systems := []score.System{
		{Name: systemNetwork, MembersUsed: used, Gives: score.Spread},
		{Name: systemRaw(used), MembersUsed: used, Gives: score.Spread},
	}
	if j.baselines != nil && j.baselines.Affine.B != 0 {
		systems = append(systems, score.System{Name: systemAffine, MembersUsed: used, Gives: score.Spread})
	}
	acc, err := score.New(j.target, score.Grid{Weights: j.grid.Weights(), Name: weightsName(j.grid)}, systems, true)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		_, few := meanStd(subset(c, c.Used), j.ddof)
		_, full := meanStd(c.Members, j.ddof)
		samples := []score.Sample{{Spread: c.Spread}, {Spread: few}}
		if len(systems) == 3 {
			affine := make([]float32, len(few))
			j.baselines.Affine.Predict(affine, few)
			samples = append(samples, score.Sample{Spread: affine})
		}
		if err := acc.Add(c.Init, full, full, samples); err != nil {
			return nil, err
		}
	}
	var pairs []score.Pair
	for _, s := range systems[1:] {
		pairs = append(pairs, score.Pair{ID: score.SpreadRMSE.ID, System: systemNetwork, Reference: s.Name})
	}
	r, err := acc.Result(j.bootstrap, pairs)
	if err != nil {
		return nil, err
	}
	// What such a system scores by itself would bear the name of the
	// distribution's score; only the distance to the full spread is kept.
	r.Scores = slices.DeleteFunc(r.Scores, func(v score.Value) bool { return v.ID != score.SpreadRMSE.ID })
	return r, nil
}
