package score

// SpreadRMSE is the root mean square difference between the system's spread s and the
// spread S of the full ensemble, both of members with divisor M−1:
//
//	√< (s−S)² >
//
// Unit: that of the variable. Better: lower.
// Source: Grönquist et al. 2019, arXiv:1911.00630.
var SpreadRMSE = &Score{
	ID: "spread_rmse", Name: "RMSE of the spread", Formula: "sqrt(<(s-S)^2>), S the full ensemble's standard deviation with divisor M-1",
	Doc:    "Error of a predicted spread field relative to the spread of the full ensemble.",
	Source: "arXiv:1911.00630",
	Unit:   SameAsVariable, Better: Lower, Divisor: "M-1", Needs: Spread | FullSpread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = (c.Spread - c.FullSpread) * (c.Spread - c.FullSpread) },
	Value: rootOfFirstMean,
}
