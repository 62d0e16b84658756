package score

// RMSE is the root mean square error of the system's mean m:
//
//	√< (m−y)² >
//
// Unit: that of the variable. Better: lower.
// Source: Wilks 2019, Statistical Methods in the Atmospheric Sciences, ch. 9.
var RMSE = &Score{
	ID: "rmse", Name: "RMSE of the mean", Formula: "sqrt(<(m-y)^2>)",
	Doc:    "Error of the ensemble mean; the root is taken once, after all averaging.",
	Source: "doi:10.1016/C2017-0-03921-6, ch. 9",
	Unit:   SameAsVariable, Better: Lower, Needs: Mean, Parts: 1,
	Point: func(parts []float64, c *Case) { parts[0] = (c.Mean - c.Obs) * (c.Mean - c.Obs) },
	Value: rootOfFirstMean,
}
