package skill

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/score"
)

// IdealScore is a mean CRPS on the same cases that says how close to the best possible the
// model is. None of them is a bound: a model with more information than the members have can
// score less than each.
type IdealScore struct {
	ID, Name, Formula string
	FromMembers       bool // made of the raw members, not of the model
	value             func(Scores) float64
}

// IdealScores lists all of them. x are the M raw members with mean m, y what came true; b is the
// local mean bias and t the local factor of the spread, fitted on the training dates:
//
//	b = mean(m − y),   t² = M/(M+1) · var(m − y) / mean(s²)
//
// With t the ratio of spread to error is 1, as it is for members of which y is one more.
//
//   - chance: what y would score on average if it were one more member, and members were
//     infinitely many. This part of the CRPS no forecast from these members could avoid in a
//     world where they are right; members with too little spread make it too small.
//   - fair_unbiased and fair_calibrated: infinitely many raw members less their bias, and with
//     the right spread too. To score less takes information that is not in mean and spread.
//   - chance_calibrated: chance of the latter. Equal to fair_calibrated if those are calibrated.
//   - expected: what the model expects of its own distribution. Reached ones are equal to
//     it on average if the model is calibrated.
//
// Source: Ferro 2014, doi:10.1002/qj.2270; ½E|X−X'| as the entropy of the CRPS, Gneiting and
// Raftery 2007, doi:10.1198/016214506000001437, section 4.2; spread and error, Fortin et al. 2014,
// doi:10.1175/JHM-D-14-0008.1.
var IdealScores = []IdealScore{
	{"chance", "chance, if the members were right", "<sum_ij|x_i-x_j|/(2M(M-1))>", true, func(s Scores) float64 { return s.PerfectModel }},
	{"fair_raw", "infinitely many raw members", "crps_fair of x", true, func(s Scores) float64 { return s.Fair }},
	{"fair_unbiased", "the same less local bias", "crps_fair of x-b", true, func(s Scores) float64 { return s.FairUnbiased }},
	{"fair_calibrated", "the same with the right spread", "crps_fair of m-b+t(x-m), t^2 = M/(M+1) var(m-y)/mean(s^2)", true, func(s Scores) float64 { return s.FairCalibrated }},
	{"chance_calibrated", "chance, if those were right", "<t sum_ij|x_i-x_j|/(2M(M-1))>", true, func(s Scores) float64 { return s.PerfectModelCalibrated }},
	{"expected", "what the model expects of itself", "<E|X-X'|/2>: s/sqrt(pi) of a normal distribution", false, func(s Scores) float64 { return s.Expected }},
}

// IdealScoreValue is a yardstick and the model's CRPS over it, with intervals.
type IdealScoreValue struct {
	IdealScore
	CRPS, Ratio Interval
}

// idealScores finds them with the intervals of resampled dates.
func idealScores(rows [][]float64, whole Scores, b score.Bootstrap) (out []IdealScoreValue, err error) {
	for _, y := range IdealScores {
		if y.value(whole) == 0 {
			continue // members that all agree: nothing is measured by it
		}
		v := IdealScoreValue{IdealScore: y}
		for _, f := range []struct {
			to *Interval
			of func(Scores) float64
		}{{&v.CRPS, y.value}, {&v.Ratio, func(s Scores) float64 { return s.Model / y.value(s) }}} {
			f.to.Value, f.to.Low, f.to.High, err = b.Interval(rows, func(sums []float64) float64 { return f.of(Sums(sums).Means()) })
			if err != nil {
				return nil, err
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// fitSpreadFactor finds t of Yardsticks at every point, NaN where there are fewer than two dates.
//
// Shape: bias [point]; error and spread2 [date][point], m − y and s².
func fitSpreadFactor(bias []float64, members int, each func(yield func(p int, error, spread2 float64))) []float64 {
	n := len(bias)
	square, spread, count := make([]float64, n), make([]float64, n), make([]float64, n)
	each(func(p int, error, spread2 float64) {
		d := error - bias[p]
		square[p], spread[p], count[p] = square[p]+d*d, spread[p]+spread2, count[p]+1
	})
	m := float64(members)
	out := make([]float64, n)
	for p := range out {
		switch out[p] = math.Sqrt(m / (m + 1) * square[p] / (count[p] - 1) / (spread[p] / count[p])); {
		case count[p] < 2:
			out[p] = math.NaN()
		case spread[p] == 0: // members that never differ cannot be spread
			out[p] = 1
		}
	}
	return out
}
