package significance

import (
	"math"
	"time"

	"gonum.org/v1/gonum/mat"
)

// PairedDate is the score of a system and of its reference on one date, both means over the same points.
type PairedDate struct {
	Time             time.Time
	Weight           float64 // of the points
	Score, Reference float64
}

// SkillScore is 1 − Σ w·score / Σ w·reference over dates in temporal order and seeds, with its interval.
//
// Shape: seeds [seed][date].
// Missing: the interval, with fewer than MinDates dates, and as SkillOverSeeds.
// Errors: no dates, a bootstrap that does not fit the dates.
func (b Bootstrap) SkillScore(seeds [][]PairedDate) (value, low, high float64, err error) {
	return b.SkillOverSeeds(sumsOf(seeds, func(d PairedDate) []float64 { return []float64{d.Weight * d.Score, d.Weight * d.Reference} }), func(s []float64) float64 { return s[0] / s[1] })
}

// sumsOf is the contribution of each date and seed to the sums of a score.
func sumsOf(seeds [][]PairedDate, of func(d PairedDate) []float64) [][][]float64 {
	all := make([][][]float64, len(seeds))
	for s, dates := range seeds {
		for _, d := range dates {
			all[s] = append(all[s], of(d))
		}
	}
	return all
}

// trendTerms is the number of coefficients of a trend: mean, change per year, annual cycle.
const trendTerms = 4

// daysInYear is the mean length of a year of the Gregorian calendar.
const daysInYear = 365.2425

// maxCondition is the largest condition number of the normal equations of a trend. Those of thirty years
// have about 1e4, those of dates that do not determine the terms 1e16.
const maxCondition = 1e10

// minTrendDays is the least time between the first and the last date of a trend. The annual cycle of
// less than two years cannot be told from a change.
const minTrendDays = 2*daysInYear - 31

// SkillTrend is the change of a skill score per year over dates in temporal order, with its interval:
// the slope β of the weighted least squares fit
//
//	reference − score ≈ α + β t + γ cos 2πt + δ sin 2πt,  t in years
//
// divided by the mean score of the reference. The annual cycle is part of the fit, because forecasts
// are improved more in some seasons than in others, which over two or three years looks like a trend.
//
// Shape: seeds [seed][date].
// Missing: NaN for dates within less than about two years (23 months), and for dates that do not
// determine all coefficients; the interval, with fewer than MinDates dates, and as IntervalOverSeeds.
// Errors: no dates, a bootstrap that does not fit the dates.
func (b Bootstrap) SkillTrend(seeds [][]PairedDate) (perYear, low, high float64, err error) {
	var first time.Time
	if len(seeds) > 0 && len(seeds[0]) > 0 {
		dates := seeds[0]
		if first = dates[0].Time; dates[len(dates)-1].Time.Sub(first).Hours() < 24*minTrendDays {
			return math.NaN(), math.NaN(), math.NaN(), nil
		}
	}
	return b.IntervalOverSeeds(sumsOf(seeds, func(d PairedDate) []float64 {
		// Years from the first date, so that the normal equations are well conditioned.
		t := d.Time.Sub(first).Hours() / 24 / daysInYear
		sin, cos := math.Sincos(2 * math.Pi * t)
		x := [trendTerms]float64{1, t, cos, sin}
		row := []float64{d.Weight * d.Reference}
		for j := range x {
			row = append(row, d.Weight*x[j]*(d.Reference-d.Score))
			for k := range j + 1 {
				row = append(row, d.Weight*x[j]*x[k])
			}
		}
		return row
	}), relativeSlope)
}

// relativeSlope solves the normal equations of a trend. The sums are the weighted reference, then for each
// term its product with the differences and with the terms up to itself. It returns the slope relative to
// the mean of the reference; NaN if the equations are singular.
func relativeSlope(s []float64) float64 {
	gram, right := mat.NewSymDense(trendTerms, nil), mat.NewVecDense(trendTerms, nil)
	at := 1
	for j := range trendTerms {
		right.SetVec(j, s[at])
		at++
		for k := range j + 1 {
			gram.SetSym(j, k, s[at])
			at++
		}
	}
	var c mat.Cholesky
	var out mat.VecDense
	if !c.Factorize(gram) || c.Cond() > maxCondition || c.SolveVecTo(&out, right) != nil {
		return math.NaN()
	}
	return out.AtVec(1) / (s[0] / gram.At(0, 0))
}
