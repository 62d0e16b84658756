package score

// QuantileScore is the quantile score (pinball loss) of the forecast's quantile q of
// probability p, for each of Options.Levels:
//
//	< (1[y < q] − p) (q − y) >
//
// q is the published quantile, interpolated between order statistics of members, or that of
// the system's distribution.
//
// Unit: that of the variable. Better: lower. Twice its integral over p is the CRPS.
// Source: Gneiting 2011, doi:10.1016/j.ijforecast.2009.12.015.
var QuantileScore = &Score{
	ID: "quantile_score", Name: "quantile score", Formula: "<(1[y<q]-p)(q-y)>, q of probability p",
	Doc:    "Error of one quantile, weighted by its probability on either side.",
	Source: "doi:10.1016/j.ijforecast.2009.12.015",
	Unit:   SameAsVariable, Better: Lower, Needs: Distribution | Levels, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		p, q := c.Levels[c.ThresholdIndex], c.Quantiles[c.ThresholdIndex]
		if parts[0] = p * (c.Obs - q); c.Obs < q {
			parts[0] = (1 - p) * (q - c.Obs)
		}
	},
	Value: firstMean,
}

// QuantileFrequency is how often the reference does not exceed the forecast's quantile of
// probability p, for each of Options.Levels:
//
//	< 1[y ≤ q] >
//
// Unit: none. Better: near p; above p where the reference often equals the quantile, as on
// dry days.
// Source: Gneiting, Balabdaoui and Raftery 2007, doi:10.1111/j.1467-9868.2007.00587.x.
var QuantileFrequency = &Score{
	ID: "quantile_frequency", Name: "frequency of references below a quantile", Formula: "<1[y<=q]>, q of probability p",
	Doc:    "How often the reference does not exceed the quantile.",
	Source: "doi:10.1111/j.1467-9868.2007.00587.x",
	Unit:   Dimensionless, Better: Nominal, Needs: Distribution | Levels, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) {
		if parts[0] = 0; c.Obs <= c.Quantiles[c.ThresholdIndex] {
			parts[0] = 1
		}
	},
	Value: firstMean,
}
