package score

// rpsSums are the shared sums of the RPS over all thresholds t: Σ (P_t−o_t)² and
// Σ P_t(1−P_t), then o_t for each threshold. P_t is the forecast probability of exceeding
// t, o_t is 1 if it was exceeded and 0 otherwise.
//
// Layout: Σ_t w(P_t−o_t)², Σ_t w P_t(1−P_t), then w o_t.
var rpsSums = &Sums{
	Size: func(_, thresholds int) int { return 2 + thresholds },
	Add: func(sums []float64, w float64, c *Case) {
		for i, p := range c.Exceedance {
			o := 0.0
			if c.Obs > c.limit(i) {
				o = 1
			}
			sums[0] += w * (p - o) * (p - o)
			sums[1] += w * p * (1 - p)
			sums[2+i] += w * o
		}
	},
}

// RPS is the ranked probability score of the categories between the thresholds: the sum
// of the Brier scores of all thresholds, not divided by their number:
//
//	< Σ_t (P_t−o_t)² >
//
// Unit: none. Better: lower; 0 is perfect. Source: Epstein 1969; Wilks 2019, ch. 9.
var RPS = &Score{
	ID: "rps", Name: "ranked probability score", Formula: "<sum_t (P_t-o_t)^2>",
	Doc:    "Sum of the Brier scores of all thresholds.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   Dimensionless, Better: Lower, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, SharedSums: rpsSums,
	Value: firstMean,
}

// RPSFair is the fair RPS, an estimate of the RPS of an infinite ensemble from M members:
//
//	< Σ_t (P_t−o_t)² − P_t(1−P_t)/(M−1) >
//
// Unit: none. Better: lower. Source: Ferro 2014, doi:10.1002/qj.2270.
var RPSFair = &Score{
	ID: "rps_fair", Name: "ranked probability score, fair", Formula: "<sum_t (P_t-o_t)^2 - P_t(1-P_t)/(M-1)>",
	Doc:    "RPS corrected for ensemble size, so that ensembles of different size compare.",
	Source: "doi:10.1002/qj.2270",
	Unit:   Dimensionless, Better: Lower, Divisor: "M-1", Needs: Members | Events, MinMembers: 2, SharedSums: rpsSums,
	Value: func(mean []float64, m int) float64 { return mean[0] - mean[1]/float64(m-1) },
}

// RPSSkill is the ranked probability skill score 1 − RPS/RPS₀. The reference forecast is
// the frequency of each category in the verified sample, RPS₀ = Σ_t ō_t(1−ō_t).
//
// Unit: none. Better: higher. Source: Wilks 2019, ch. 9.
var RPSSkill = &Score{
	ID: "rps_skill", Name: "ranked probability skill score", Formula: "1 - <sum_t (P_t-o_t)^2>/sum_t <o_t>(1-<o_t>)",
	Doc:    "Skill relative to the frequencies of the categories in the verified sample.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   Dimensionless, Better: Higher, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, SharedSums: rpsSums,
	Value: func(mean []float64, _ int) float64 {
		var climate float64
		for _, o := range mean[2:] {
			climate += o * (1 - o)
		}
		return 1 - mean[0]/climate
	},
}
