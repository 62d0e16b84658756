package significance

import "math"

// widestUndecided limits the intervals of skill scores that contain 0. One whose ends are ratios of scores that differ by
// a larger factor, such as −300 % and 75 %, states nothing about the two systems and is withheld.
const widestUndecided = 16

// EstimateSkill is Estimate of a skill score 1 − r. r are the ratios of a system's score to that of its reference. The
// interval is that of log r, so it remains finite where the reference's score is uncertain, exchanging the systems
// exchanges its ends, and none exceeds 1.
//
// Missing: as Estimate, also if a ratio is not positive, and if the interval is TooWide.
// Source: Fieller 1954, Journal of the Royal Statistical Society B 16, 175–185, on ratios whose denominator may be 0.
func (b Bootstrap) EstimateSkill(ratios, without []float64) Estimate {
	e := b.Estimate(logs(ratios), logs(without))
	e.Low, e.High, e.NoInterval = skillInterval(e.Low, e.High, e.NoInterval)
	return e
}

// SkillOverSeeds is IntervalOverSeeds of a skill score 1 − r, with the interval of EstimateSkill. ratio computes r from
// sums over dates.
//
// Shape, Errors: as IntervalOverSeeds. Missing: as IntervalOverSeeds and EstimateSkill.
func (b Bootstrap) SkillOverSeeds(seeds [][][]float64, ratio func(sums []float64) float64) (value, low, high float64, err error) {
	log, low, high, err := b.IntervalOverSeeds(seeds, func(s []float64) float64 { return math.Log(ratio(s)) })
	low, high, _ = skillInterval(low, high, "")
	return -math.Expm1(log), low, high, err
}

// PValueOfSkill is the probability α at which the interval of SkillOverSeeds with confidence 1 − α begins to contain 0:
// the p-value of equal scores. From 1/2000 on, below which the bootstrap tells nothing, it is that to 1 %.
//
// Shape, Errors: as SkillOverSeeds. Missing: NaN where SkillOverSeeds has no interval.
func (b Bootstrap) PValueOfSkill(seeds [][][]float64, ratio func(sums []float64) float64) (float64, error) {
	const least, steps = 1.0 / 2000, 10
	differs := func(alpha float64) (differs, known bool, err error) {
		b.Confidence = 1 - alpha
		_, low, high, err := b.SkillOverSeeds(seeds, ratio)
		return low > 0 || high < 0, !math.IsNaN(low), err
	}
	if _, known, err := differs(0.05); err != nil || !known {
		return math.NaN(), err
	}
	low, high := math.Log(least), 0.0
	if d, _, err := differs(least); d || err != nil {
		return least, err
	}
	for range steps {
		middle := (low + high) / 2
		d, _, err := differs(math.Exp(middle))
		if err != nil {
			return math.NaN(), err
		}
		if d {
			high = middle
		} else {
			low = middle
		}
	}
	return math.Exp(high), nil
}

// skillInterval converts the interval of a log ratio to that of the skill score, unless there is none or it is too wide.
func skillInterval(low, high float64, none Reason) (lowest, highest float64, reason Reason) {
	if low < 0 && high > 0 && high-low > math.Log(widestUndecided) {
		return math.NaN(), math.NaN(), TooWide
	}
	return -math.Expm1(high), -math.Expm1(low), none
}

// logs is the logarithm of each value.
func logs(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = math.Log(v)
	}
	return out
}
