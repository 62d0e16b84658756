package skill

import (
	"math"

	"github.com/ensemble-weather/ensemble/postproc/significance"
)

// IdealScore is the CRPS of an idealised ensemble on the same cases. None is a lower
// bound: a model with more information than the members can score less.
type IdealScore struct {
	ID, Name, Formula string
	FromMembers       bool // computed from the raw members; false: from the model
	value             func(Scores) float64
}

// IdealScores lists the idealised ensembles. x are the M raw members with mean m, y is the
// observation. b is the local mean bias and t the local factor of the spread, both
// fitted on the training dates:
//
//	b = mean(m − y),   t² = M/(M+1) · var(m − y) / mean(s²)
//
// With t the spread-skill ratio is 1, as for members that are exchangeable with the
// observation.
//
//   - perfect_model: the CRPS of an infinite ensemble if the observation were one more member
//     (perfect-model assumption), ½E|X−X'|. Underdispersive members make it too small.
//   - fair_unbiased and fair_calibrated: infinitely many raw members without their bias,
//     and with corrected spread too. A lower CRPS takes information that is not in mean
//     and spread.
//   - perfect_model_calibrated: perfect_model of the latter. It equals fair_calibrated if those members
//     are calibrated.
//   - expected: the expected CRPS of the model's own distribution. It equals the CRPS on
//     average if the model is calibrated.
//
// Source: Ferro 2014, doi:10.1002/qj.2270; ½E|X−X'| as the entropy of the CRPS, Gneiting and
// Raftery 2007, doi:10.1198/016214506000001437, section 4.2; spread and error, Fortin et al. 2014,
// doi:10.1175/JHM-D-14-0008.1.
var IdealScores = []IdealScore{
	{"perfect_model", "perfect ensemble of raw members", "<sum_ij|x_i-x_j|/(2M(M-1))>", true, func(s Scores) float64 { return s.PerfectModel }},
	{"fair_raw", "infinite raw ensemble", "crps_fair of x", true, func(s Scores) float64 { return s.Fair }},
	{"fair_unbiased", "infinite raw ensemble without local bias", "crps_fair of x-b", true, func(s Scores) float64 { return s.FairUnbiased }},
	{"fair_calibrated", "infinite raw ensemble without local bias, with corrected spread", "crps_fair of m-b+t(x-m), t^2 = M/(M+1) var(m-y)/mean(s^2)", true, func(s Scores) float64 { return s.FairCalibrated }},
	{"perfect_model_calibrated", "perfect ensemble of corrected members", "<t sum_ij|x_i-x_j|/(2M(M-1))>", true, func(s Scores) float64 { return s.PerfectModelCalibrated }},
	{"expected", "expected CRPS of the model", "<E|X-X'|/2>: s/sqrt(pi) of a normal distribution", false, func(s Scores) float64 { return s.Expected }},
}

// IdealScoreValue is an IdealScore with its CRPS and the ratio of the model's CRPS to it, with intervals.
type IdealScoreValue struct {
	IdealScore
	CRPS, Ratio Interval
}

// idealScores computes the CRPS of all idealised ensembles with bootstrap intervals.
func idealScores(rows [][]float64, whole Scores, b significance.Bootstrap) (out []IdealScoreValue, err error) {
	for _, y := range IdealScores {
		if y.value(whole) == 0 {
			continue // all members agree, so the ratio is not defined
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

// fitSpreadFactor estimates t of IdealScores at every point; NaN with fewer than two dates. each
// calls yield with m − y and s² of every case.
//
// Shape: bias and result [point].
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
		case spread[p] == 0: // identical members cannot be spread
			out[p] = 1
		}
	}
	return out
}
