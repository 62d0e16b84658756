package score

// Brier is the Brier score of the event that a threshold is exceeded:
//
//	< (p − o)² >
//
// p is the fraction of members above the threshold, or the probability from the
// system's distribution. o is 1 if the event happened and 0 otherwise.
//
// Unit: none. Better: lower; 0 is perfect.
// Source: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
var Brier = &Score{
	ID: "brier", Name: "Brier score", Formula: "<(p-o)^2>",
	Doc:    "Squared error of the probability; increases as the ensemble gets smaller, see brier_fair.",
	Source: "doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2",
	Unit:   Dimensionless, Better: Lower, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.brier() },
	Value: firstMean,
}

// brier is (p−o)² of the case.
func (c *Case) brier() float64 {
	p, happened := c.Probability()
	if happened {
		p--
	}
	return p * p
}

// BrierFair is the fair Brier score, an estimate of the Brier score of an infinite
// ensemble from M members:
//
//	< (p−o)² − p(1−p)/(M−1) >
//
// Unit: none. Better: lower; single values may be negative.
// Source: Ferro 2014, doi:10.1002/qj.2270.
var BrierFair = &Score{
	ID: "brier_fair", Name: "Brier score, fair", Formula: "<(p-o)^2 - p(1-p)/(M-1)>",
	Doc:    "Brier score corrected for ensemble size, so that ensembles of different size compare.",
	Source: "doi:10.1002/qj.2270",
	Unit:   Dimensionless, Better: Lower, Divisor: "M-1", Needs: Members | Events, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		p, _ := c.Probability()
		parts[0] = c.brier() - p*(1-p)/float64(len(c.Members)-1)
	},
	Value: firstMean,
}

// BrierSkill is the Brier skill score 1 − BS/(ō(1−ō)). The reference forecast is the
// frequency ō of the event in the verified sample, which is not known in advance.
//
// Unit: none. Better: higher; 1 is perfect, 0 as good as the reference.
// Source: Wilks 2019, ch. 9.
var BrierSkill = &Score{
	ID: "brier_skill", Name: "Brier skill score", Formula: "1 - <(p-o)^2>/(<o>(1-<o>))",
	Doc:    "Skill relative to the event's frequency in the verified sample.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   Dimensionless, Better: Higher, Divisor: "M", Needs: Distribution | Events, MinMembers: 2, Parts: 2,
	Point: func(parts []float64, c *Case) {
		parts[0], parts[1] = c.brier(), 0
		if _, happened := c.Probability(); happened {
			parts[1] = 1
		}
	},
	Value: func(mean []float64, _ int) float64 { return 1 - mean[0]/(mean[1]*(1-mean[1])) },
}
