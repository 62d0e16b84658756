package score

// rpsSums are, for all thresholds t together: Σ (P_t−o_t)², Σ P_t(1−P_t), and o_t
// for each, with P_t the probability of exceeding t and o_t whether it happened.
var rpsSums = &Sums{
	Size: func(_, thresholds int) int { return 2 + thresholds },
	Add: func(sums []float64, w float64, c *Case) {
		for i, t := range c.Thresholds {
			p, o := c.Exceedance[i], 0.0
			if c.Obs > t {
				o = 1
			}
			sums[0] += w * (p - o) * (p - o)
			sums[1] += w * p * (1 - p)
			sums[2+i] += w * o
		}
	},
}

// RPS is the ranked probability score of the categories that the thresholds part: the
// sum of their Brier scores, < Σ_t (P_t−o_t)² >, not divided by their number.
//
// Better: lower. Source: Epstein 1969; Wilks 2019, ch. 9.
var RPS = &Score{
	ID: "rps", Name: "ranked probability score", Formula: "<sum_t (P_t-o_t)^2>",
	Doc:    "Sum of the Brier scores of all thresholds.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   Dimensionless, Better: Lower, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, SharedSums: rpsSums,
	Value: firstMean,
}

// RPSFair is the RPS that infinitely many members would have,
// < Σ_t (P_t−o_t)² − P_t(1−P_t)/(M−1) >.
//
// Better: lower. Source: Ferro 2014, doi:10.1002/qj.2270.
var RPSFair = &Score{
	ID: "rps_fair", Name: "ranked probability score, fair", Formula: "<sum_t (P_t-o_t)^2 - P_t(1-P_t)/(M-1)>",
	Doc:    "RPS corrected for ensemble size, so that ensembles of different size compare.",
	Source: "doi:10.1002/qj.2270",
	Unit:   Dimensionless, Better: Lower, Divisor: "M-1", Needs: Members | Events, MinMembers: 2, SharedSums: rpsSums,
	Value: func(mean []float64, m int) float64 { return mean[0] - mean[1]/float64(m-1) },
}

// RPSSkill is 1 − RPS/RPS₀, RPS₀ that of always saying the frequencies in the sample
// that is judged, Σ_t ō_t(1−ō_t).
//
// Better: higher. Source: Wilks 2019, ch. 9.
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
