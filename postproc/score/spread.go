package score

// SpreadScore is the root mean square spread, of members with divisor M−1:
//
//	√< s² >
//
// A small spread means a sharp forecast, but not a better one.
//
// Unit: that of the variable. Better: neither.
// Source: Fortin et al. 2014, doi:10.1175/JHM-D-14-0008.1.
var SpreadScore = &Score{
	ID: "spread", Name: "spread", Formula: "sqrt(<s^2>), s of members with divisor M-1",
	Doc:    "Sharpness; variances are averaged, the root is taken once.",
	Source: "doi:10.1175/JHM-D-14-0008.1",
	Unit:   SameAsVariable, Better: Neither, Divisor: "M-1", Needs: Spread, MinMembers: 2, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = c.Spread * c.Spread },
	Value: rootOfFirstMean,
}
