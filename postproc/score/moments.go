package score

import "math"

// RMSE is the root of the mean squared distance of the system's mean m from y:
//
//	√< (m−y)² >
//
// Unit: that of the variable. Better: lower.
// Source: Wilks 2019, Statistical Methods in the Atmospheric Sciences, ch. 9.
var RMSE = &Score{
	ID: "rmse", Name: "RMSE of the mean", Formula: "sqrt(<(m-y)^2>)",
	Doc:    "Skill of the mean alone; the root is taken once, after all averaging.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   SameAsVariable, Better: Lower, Needs: Mean, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = (c.Mean - c.Obs) * (c.Mean - c.Obs) },
	Value: func(mean []float64, _ int) float64 { return math.Sqrt(mean[0]) },
}

// Bias is the mean of forecast − reference, < m−y >.
//
// Unit: that of the variable. Better: near 0; local biases may cancel.
// Source: Wilks 2019, ch. 9.
var Bias = &Score{
	ID: "bias", Name: "bias", Formula: "<m-y>",
	Doc:    "Mean of forecast minus reference over the whole area; regional biases of both signs cancel.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   SameAsVariable, Better: Zero, Needs: Mean, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.Mean - c.Obs },
	Value: single,
}

// SpreadScore is the root mean square spread, √< s² >, of members with divisor
// M−1. By itself it is neither good nor bad; less is sharper.
//
// Unit: that of the variable.
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1.
var SpreadScore = &Score{
	ID: "spread", Name: "spread", Formula: "sqrt(<s^2>), s of members with divisor M-1",
	Doc:    "Sharpness; variances are averaged, the root is taken once.",
	Source: "doi:10.1175/JHM-D-14-0008.1",
	Unit:   SameAsVariable, Better: Neither, Needs: Spread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.Spread * c.Spread },
	Value: func(mean []float64, _ int) float64 { return math.Sqrt(mean[0]) },
}

// SpreadSkill is the spread-skill ratio with the factor for finitely many
// members:
//
//	√((M+1)/M) · √< s² > / √< (m−y)² >
//
// The factor applies to members, whose mean has an error of its own; for a
// distribution it is 1. 1 is calibrated, less is too narrow.
//
// Better: near 1. Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1.
var SpreadSkill = &Score{
	ID: "spread_skill", Name: "spread-skill ratio", Formula: "sqrt((M+1)/M) sqrt(<s^2>)/sqrt(<(m-y)^2>); factor 1 for distributions",
	Doc:    "Whether the spread says how large the distance of the mean from the reference is; below 1 too narrow.",
	Source: "doi:10.1175/JHM-D-14-0008.1",
	Unit:   Dimensionless, Better: One, Needs: Mean | Spread, MinMembers: 2, Parts: 2,
	Point: func(parts []float64, c *Case) {
		parts[0] = c.Spread * c.Spread
		parts[1] = (c.Mean - c.Obs) * (c.Mean - c.Obs)
	},
	Value: func(mean []float64, members int) float64 {
		r := math.Sqrt(mean[0] / mean[1])
		if m := float64(members); members > 0 {
			r *= math.Sqrt((m + 1) / m)
		}
		return r
	},
}

// SpreadRMSE is how far the system's spread field is from that of the full
// ensemble, √< (s−S)² >, both of members with divisor M−1.
//
// Unit: that of the variable. Better: lower.
// Source: Grönquist et al. 2019, arXiv:1911.00630.
var SpreadRMSE = &Score{
	ID: "spread_rmse", Name: "RMSE of the spread", Formula: "sqrt(<(s-S)^2>), S the full ensemble's standard deviation with divisor M-1",
	Doc:    "Distance of a predicted spread field from the spread of the full ensemble.",
	Source: "arXiv:1911.00630",
	Unit:   SameAsVariable, Better: Lower, Needs: Spread | FullSpread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = (c.Spread - c.FullSpread) * (c.Spread - c.FullSpread) },
	Value: func(mean []float64, _ int) float64 { return math.Sqrt(mean[0]) },
}
