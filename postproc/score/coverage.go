package score

// Coverage50 and Coverage90 are the coverage of the central prediction interval of
// probability p = 0.5 and 0.9: the frequency of observations between the (1−p)/2 and
// (1+p)/2 quantiles,
//
//	< 1[ q_low ≤ y ≤ q_high ] >
//
// Quantiles of members are interpolated linearly between order statistics. Intervals of
// few members are too narrow even if the members are calibrated.
//
// Unit: none. Better: near p.
// Source: Gneiting, Balabdaoui and Raftery 2007, doi:10.1111/j.1467-9868.2007.00587.x.
var (
	Coverage50 = newCoverage("coverage_50", 0.50)
	Coverage90 = newCoverage("coverage_90", 0.90)
)

// newCoverage defines the coverage of the central interval of probability p.
func newCoverage(id string, p float64) *Score {
	return &Score{
		ID: id, Name: "coverage of the central " + id[len(id)-2:] + " % interval", Formula: "<1[q_low <= y <= q_high]>, q of probability (1-p)/2 and (1+p)/2",
		Doc:    "How often the reference lies in the interval; small ensembles give intervals that are too narrow.",
		Source: "doi:10.1111/j.1467-9868.2007.00587.x",
		Unit:   Dimensionless, Better: Nominal, Needs: Distribution, MinMembers: 2, Parts: 1,
		Point: func(parts []float64, c *Case) {
			parts[0] = 0
			if c.quantile((1-p)/2) <= c.Obs && c.Obs <= c.quantile((1+p)/2) {
				parts[0] = 1
			}
		},
		Value: firstMean,
	}
}

// IntervalScore90 is the interval score of the central prediction interval [l, u] of
// probability 1−α = 0.9: its width plus a penalty for observations outside,
//
//	< (u−l) + (2/α)(l−y)₊ + (2/α)(y−u)₊ >,  α = 0.1
//
// Unit: that of the variable. Better: lower.
// Source: Gneiting and Raftery 2007, doi:10.1198/016214506000001437, eq. 43.
var IntervalScore90 = &Score{
	ID: "interval_score_90", Name: "interval score of the central 90 % interval", Formula: "<(u-l) + (2/0.1)(l-y)+ + (2/0.1)(y-u)+>",
	Doc:    "Width of the interval plus penalties for misses; proper.",
	Source: "doi:10.1198/016214506000001437",
	Unit:   SameAsVariable, Better: Lower, Needs: Distribution, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		low, high := c.quantile(0.05), c.quantile(0.95)
		parts[0] = high - low + 20*max(low-c.Obs, 0) + 20*max(c.Obs-high, 0)
	},
	Value: firstMean,
}
